"""Emulations do not see each other, refuse to run twice, and leave nothing, however they end."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from inca_net.isolate import EXIT_LOCKED, EXIT_TIMED_OUT, isolated

HOLD = Path(__file__).with_name("hold.py")


class Held:
    """A running hold.py."""

    def __init__(self, name: str, folder: Path) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(HOLD), name, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def up(self) -> bool:
        assert self.process.stdout is not None
        return self.process.stdout.readline() == "up\n"

    def finish(self) -> tuple[int, str]:
        _, error = self.process.communicate("", timeout=30)
        return self.process.returncode, error


def interfaces() -> list[str]:
    return sorted(path.name for path in Path("/sys/class/net").iterdir())


def processes_of(parent: int) -> list[int]:
    """All descendants, by the parents in /proc."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                stat = (entry / "stat").read_text()
            except OSError:
                continue
            parents[int(entry.name)] = int(stat.rpartition(")")[2].split()[1])
    found = [parent]
    for pid in found:
        found += [child for child, of in parents.items() if of == pid]
    return found[1:]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition: Callable[[], bool], seconds: float = 10.0) -> bool:
    deadline = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.02)
    return True


def test_networks_of_two_runs_do_not_touch(tmp_path: Path) -> None:
    before = interfaces()
    # The same interface names in both.
    first, second = Held("first", tmp_path / "1"), Held("second", tmp_path / "2")
    assert first.up()
    assert second.up()
    assert interfaces() == before
    assert first.finish() == (0, "")
    assert second.finish() == (0, "")


def test_m3_second_run_of_a_name_is_refused_while_the_first_runs(tmp_path: Path) -> None:
    first = Held("twice", tmp_path)
    assert first.up()
    code, error = Held("twice", tmp_path).finish()
    assert code == EXIT_LOCKED
    assert f"an emulation named 'twice' is already running (process {first.process.pid})" in error
    assert first.finish()[0] == 0
    again = Held("twice", tmp_path)
    assert again.up()
    assert again.finish()[0] == 0


def test_m3_killed_run_leaves_no_process_and_no_lock(tmp_path: Path) -> None:
    held = Held("killed", tmp_path)
    assert held.up()
    family = processes_of(held.process.pid)
    # Process 1 of the run, two hosts' and the switch's shells, the job on h1.
    assert len(family) >= 5
    held.process.kill()
    held.process.wait()
    assert wait_until(lambda: not any(map(alive, family)))
    again = Held("killed", tmp_path)
    assert again.up()
    assert again.finish()[0] == 0


def test_terminated_run_cleans_up_and_ends(tmp_path: Path) -> None:
    held = Held("terminated", tmp_path)
    assert held.up()
    family = processes_of(held.process.pid)
    held.process.terminate()
    assert held.process.wait(20) == 130
    assert wait_until(lambda: not any(map(alive, family)))


@pytest.mark.parametrize("stubborn", [False, True])
def test_time_limit_ends_a_run(stubborn: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    def inside() -> int:
        while True:
            try:
                time.sleep(100)
            except KeyboardInterrupt:
                if not stubborn:
                    raise

    monkeypatch.setattr("inca_net.isolate.GRACE_SECONDS", 0.3)
    child = os.fork()
    if child == 0:
        os._exit(isolated(None, inside, 0.2))
    started = time.monotonic()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == EXIT_TIMED_OUT
    assert time.monotonic() - started < 5
