"""An experiment on an emulated network: interrupted, resumed, with its rows, logs, pcap and plots."""

from __future__ import annotations

import json
import os
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from inca_net.experiment import run
from inca_net.experiment_file import parse_experiment
from inca_net.isolate import EXIT_BROKEN_PIPE
from inca_net.nodes import ROOT
from inca_net.peers import missing
from inca_net.results import Results

TEXT = """\
networks: [{name: two, topology: tree2, workers: [1, 1], rates: {host: 100, switch: 200}}]
jobs: [{kind: inca, format: bfp16}, {kind: inca, type: i32}]
sizes: [{bytes: 8, iterations: 5}, {bytes: 64K, iterations: 2}, {bytes: 128K, iterations: 1}]
record: [startup, pcap, counters]
"""


class InterruptionError(Exception):
    """Stands for Ctrl-C."""


def stops_at(text: str) -> Callable[[str], None]:
    def progress(line: str) -> None:
        if text in line:
            raise InterruptionError(line)

    return progress


def test_an_interrupted_experiment_goes_on_where_it_was(tmp_path: Path) -> None:
    experiment = parse_experiment(TEXT, "e.yaml", "e")
    first = Results(tmp_path, experiment)
    first.open(resume=False)
    with pytest.raises(InterruptionError):
        run(experiment, first, stops_at("inca-i32"))
    done = [cell["cell"] for cell in first.cells]
    assert done == ["two/embedded/start-up/1", "two/embedded/inca-bfp16/1"]

    second = Results(tmp_path, experiment)
    second.open(resume=True)
    lines: list[str] = []
    assert run(experiment, second, lines.append) == 0
    assert lines[0].startswith("e: 1 of 3 cells to run")
    assert [cell["cell"] for cell in second.cells] == [*done, "two/embedded/inca-i32/1"]

    rows = json.loads((tmp_path / "rows.json").read_text())
    assert [(row["job"], row["bytes"]) for row in rows] == [
        ("start-up", 8),
        *(("inca-bfp16", size) for size in (8, 65536, 131072)),
        *(("inca-i32", size) for size in (8, 65536, 131072)),
    ]
    assert all(row["wrong"] == 0 and row["seconds"] > 0 for row in rows)
    assert all(row["of_bound"] > 0.5 for row in rows if row["bytes"] == 131072)
    assert second.cells[-1]["counters"]["switches"]
    assert (tmp_path / "sizes-two-embedded.png").stat().st_size > 1000
    assert "| inca-i32 |" in (tmp_path / "report.md").read_text()
    # The emulation after the interruption has a folder of its own.
    assert (tmp_path / "two-embedded" / "leaf1.log").exists()
    assert (tmp_path / "two-embedded-2" / "leaf1.log").exists()
    assert packets(tmp_path / "two-embedded-2" / "two-embedded-inca-i32-1.pcap") > 100


def packets(path: Path) -> int:
    """Counts a pcap file's packets; they must fill it exactly."""
    data = path.read_bytes()
    assert struct.unpack_from("<I", data) == (0xA1B2C3D4,)
    offset, count = 24, 0
    while offset < len(data):
        offset += 16 + struct.unpack_from("<I", data, offset + 8)[0]
        count += 1
    assert offset == len(data)
    return count


def test_the_time_limit_holds_for_all_sizes_of_a_job_and_what_failed_is_said(tmp_path: Path) -> None:
    # About 1.2 s each, at 10 Mbit/s: each size alone is within the limit.
    text = """\
networks: [{topology: single, workers: [2], rates: {host: 10}}]
jobs: [{kind: inca, type: i32}]
sizes: [{bytes: 128K, iterations: 8}, {bytes: 132K, iterations: 8}, {bytes: 136K, iterations: 8}]
time_limit: 2
"""
    experiment = parse_experiment(text, "e", "e")
    results = Results(tmp_path, experiment)
    results.open(resume=False)
    assert run(experiment, results, lambda _line: None) == 1
    assert list(results.failed) == ["network1/embedded/inca-i32/1"]
    assert 1.0 < results.cells[0]["seconds"] < 10.0
    assert results.rows == []
    assert "Failed:\n\n* network1/embedded/inca-i32/1: " in (tmp_path / "report.md").read_text()


def test_what_is_not_installed_is_skipped_and_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("inca_net.peers.shutil.which", lambda _name: None)
    text = TEXT.replace("{kind: inca, type: i32}", "{kind: openmpi, algorithm: ring}").replace(", pcap, counters", "")
    experiment = parse_experiment(
        text.replace(", {bytes: 64K, iterations: 2}, {bytes: 128K, iterations: 1}", ""), "e", "e"
    )
    results = Results(tmp_path, experiment)
    results.open(resume=False)
    assert run(experiment, results, lambda _line: None) == 0
    assert list(results.skipped) == ["two/embedded/openmpi-ring/1"]
    assert "mpicc and mpirun not found" in (tmp_path / "report.md").read_text()


@pytest.mark.parametrize("job", ["{kind: openmpi, algorithm: ring}", "{kind: gloo}"])
def test_peers_sum_over_the_same_switches(tmp_path: Path, job: str) -> None:
    experiment = parse_experiment(
        f"networks: [{{topology: tree2, workers: [1, 1]}}]\njobs: [{job}]\nsizes: [{{bytes: 64K, iterations: 2}}]\n",
        "e",
        "e",
    )
    if reason := missing(experiment.jobs[0].kind):
        pytest.skip(reason)
    results = Results(tmp_path, experiment)
    results.open(resume=False)
    assert run(experiment, results, lambda _line: None) == 0
    assert [(row["bytes"], row["wrong"], row["ranks"]) for row in results.rows] == [(65536, 0, 2)]
    assert results.rows[0]["mean_seconds"] > 0


def start_command(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    """The command itself, with sums that go on for much longer than a test."""
    (tmp_path / "ends.yaml").write_text(
        "networks: [{topology: single, workers: [2], rates: {host: 10}}]\njobs: [{kind: inca}]\n"
        "sizes: [{bytes: 1M, iterations: 1000}]\n"
    )
    command = [sys.executable, "-m", "inca_net", "experiment", str(tmp_path / "ends.yaml")]
    return subprocess.Popen(
        [*command, "--results", str(tmp_path / "results"), *options],
        env={**os.environ, "PYTHONPATH": str(ROOT / "mininet")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_an_interrupted_command_says_how_to_go_on(tmp_path: Path) -> None:
    running = start_command(tmp_path)
    assert running.stdout is not None
    while not running.stdout.readline().startswith("[1/1]"):
        assert running.poll() is None
    running.send_signal(signal.SIGTERM)
    _output, error = running.communicate(timeout=60)
    assert (running.returncode, error) == (130, "inca-net: interrupted; the same command with --resume goes on\n")


def test_an_experiment_whose_reader_leaves_ends_quietly(tmp_path: Path) -> None:
    running = start_command(tmp_path)
    assert running.stdout is not None
    assert running.stderr is not None
    assert "1 of 1 cells to run" in running.stdout.readline()
    running.stdout.close()
    assert running.stderr.read() == ""
    assert running.wait(60) == EXIT_BROKEN_PIPE
