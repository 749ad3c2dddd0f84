"""The command line: what is refused before anything is built or touched, and how commands end."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from inca_net import doctor
from inca_net.__main__ import main
from inca_net.bench import parse_only
from inca_net.isolate import EXIT_BROKEN_PIPE, EXIT_LOCKED, acquire_lock, release_lock
from inca_net.nodes import ROOT

EXPERIMENT = "name: {name}\nnetworks: [{{topology: single, workers: [2]}}]\njobs: [{{kind: inca}}]\nsizes: [8]\n"
ENVIRONMENT = {**os.environ, "PYTHONPATH": str(ROOT / "mininet")}


def inca_net(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "inca_net", *arguments]
    return subprocess.run(command, env=ENVIRONMENT, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.parametrize("existing", [True, False])
def test_a_second_run_of_an_experiment_touches_nothing(tmp_path: Path, existing: bool) -> None:
    if reason := doctor.why_not():
        pytest.skip(reason)
    name = f"locked-{os.getpid()}"
    file, folder = tmp_path / "e.yaml", tmp_path / "results"
    file.write_text(EXPERIMENT.format(name=name))
    held = {"experiment.yaml": "text", "cells.jsonl": '{"cell": "a", "rows": []}\n', "rows.json": "[]"}
    if existing:
        folder.mkdir()
        for each, text in held.items():
            (folder / each).write_text(text)
    lock = acquire_lock(f"experiment-{name}")
    try:
        done = inca_net("experiment", str(file), "--results", str(folder), *(["--again"] if existing else []))
    finally:
        release_lock(f"experiment-{name}", lock)
    assert done.returncode == EXIT_LOCKED
    assert (
        f"already running (process {os.getpid()}); stop it or give this experiment another name ('name:'" in done.stderr
    )
    assert "--name" not in done.stderr
    if existing:
        assert {path.name: path.read_text() for path in folder.iterdir()} == held
    else:
        assert not folder.exists()


def test_resume_and_again_exclude_each_other(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["experiment", str(tmp_path / "e.yaml"), "--resume", "--again"])
    assert caught.value.code == 2
    assert "--again: not allowed with argument --resume" in capsys.readouterr().err


def test_a_reader_that_leaves_ends_a_command_quietly(tmp_path: Path) -> None:
    file = tmp_path / "e.yaml"
    file.write_text(EXPERIMENT.format(name="mine"))
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-m", "inca_net", "experiment", str(file), "--check"]
    done = subprocess.run(
        command, env=ENVIRONMENT, stdout=write, stderr=subprocess.PIPE, text=True, timeout=60, check=False
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (EXIT_BROKEN_PIPE, "")


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--bytes", "4"], "argument --bytes: '4': bytes of whole elements of 4, at least 8, are valid"),
        (["--bytes", "10"], "argument --bytes: '10'"),
        (["--slots", "0"], "argument --slots: '0': 1 to 4096 slots are valid"),
        (["--slots", "x"], "argument --slots: 'x': 1 to 4096 slots are valid"),
        (["--format", "bfp12"], "argument --format: invalid choice: 'bfp12' (choose from"),
    ],
)
def test_a_soak_that_can_not_be_is_refused(
    arguments: list[str], complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["soak", *arguments])
    assert caught.value.code == 2
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize("only", ["", ",", "codec,", "nonsense", "codec,nonsense"])
def test_parts_of_the_benchmark_that_there_are_not_are_refused(only: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "--only", only]) == 2
    error = capsys.readouterr().err
    assert f"--only '{only}': no part is called '{only.split(',')[-1]}', valid are dataplane, dataplane-2," in error
    assert "codec" in error
    assert "goal-embedded" in error


def test_parts_of_the_benchmark_are_chosen_by_name_or_kind() -> None:
    assert parse_only("scaling, dataplane", quick=False) == ["scaling", "dataplane"]
    assert parse_only("quick", quick=True) == ["quick"]
