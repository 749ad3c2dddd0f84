"""Processes of an emulation: long-running components with their logs, and jobs with a time limit."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

POLL_SECONDS = 0.02
TERMINATE_SECONDS = 3.0
TAIL_LINES = 20


class ComponentError(RuntimeError):
    """A switch or the controller died or never got ready; the message carries the end of its log."""


class JobError(RuntimeError):
    """A command on a host failed or ran out of time; the message carries the end of its output."""


@dataclass
class Component:
    """A long-running process of the emulation and the file that its output goes to."""

    what: str
    process: subprocess.Popen[bytes]
    log: Path

    @classmethod
    def start(cls, what: str, argv: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Component:
        """Starts it with stdout and stderr in `log`; the command stands in the log's first line."""
        with log.open("wb") as output:
            output.write(f"+ {' '.join(argv)}\n".encode())
            output.flush()
            try:
                process = subprocess.Popen(
                    argv,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    # Logs are files.
                    env={**os.environ, "NO_COLOR": "1", **(env or {})},
                )
            except OSError as error:
                raise ComponentError(f"{what}: can't start {argv[0]}: {error.strerror}") from None
        return cls(what, process, log)

    def check(self) -> None:
        """Raises if the process has ended."""
        code = self.process.poll()
        if code is not None:
            raise ComponentError(f"{self.what} ended with {exit_text(code)}; end of {self.log}:\n{tail(self.log)}")

    def wait_for_port(self, port: int, seconds: float) -> None:
        """Waits until it accepts TCP connections on 127.0.0.1."""
        deadline = time.monotonic() + seconds
        while True:
            self.check()
            with socket.socket() as probe:
                probe.settimeout(0.5)
                if probe.connect_ex(("127.0.0.1", port)) == 0:
                    return
            if time.monotonic() > deadline:
                raise ComponentError(
                    f"{self.what} does not listen on port {port} after {seconds:.0f} s; "
                    f"end of {self.log}:\n{tail(self.log)}"
                )
            time.sleep(POLL_SECONDS)

    def stop(self) -> None:
        """Ends it: politely first."""
        end_process(self.process)


@dataclass
class Job:
    """One command on one host, running."""

    host: str
    argv: list[str]
    process: subprocess.Popen[bytes]
    stdout: Path
    stderr: Path
    started: float = field(default_factory=time.monotonic)


@dataclass
class Outcome:
    """What became of a job. `returncode` is None if it ran out of time."""

    host: str
    argv: list[str]
    returncode: int | None
    seconds: float
    stdout: Path
    stderr: Path

    @property
    def ok(self) -> bool:
        """Ended in time with 0."""
        return self.returncode == 0

    def text(self) -> str:
        """All of its standard output."""
        return self.stdout.read_text(errors="replace")

    def json(self) -> Any:
        """Its standard output as JSON: one document, or the last line that is one."""
        text = self.text()
        try:
            return json.loads(text)
        except json.JSONDecodeError:
            for line in reversed(text.splitlines()):
                if line.startswith(("{", "[")):
                    return json.loads(line)
            raise JobError(f"{self.host}: no JSON in the output of {self.argv[0]}:\n{self.report()}") from None

    def report(self) -> str:
        """For error messages: how it ended and the end of its output."""
        how = "ran out of time" if self.returncode is None else f"ended with {exit_text(self.returncode)}"
        return (
            f"{self.host}: {' '.join(self.argv)}\n{how} after {self.seconds:.1f} s; "
            f"stdout:\n{tail(self.stdout)}\nstderr:\n{tail(self.stderr)}"
        )


def wait_jobs(jobs: Sequence[Job], time_limit: float, check: Callable[[], None]) -> list[Outcome]:
    """Waits for all jobs at most `time_limit` seconds, then ends them; `check` raises if a component died meanwhile.

    The jobs' processes are gone when this returns or raises.
    """
    outcomes: dict[int, Outcome] = {}
    deadline = time.monotonic() + time_limit
    try:
        while len(outcomes) < len(jobs):
            for index, job in enumerate(jobs):
                code = job.process.poll()
                if index not in outcomes and code is not None:
                    outcomes[index] = _outcome(job, code)
            check()
            if time.monotonic() > deadline:
                break
            time.sleep(POLL_SECONDS)
    finally:
        for index, job in enumerate(jobs):
            if index not in outcomes:
                end_process(job.process)
                outcomes[index] = _outcome(job, None)
    return [outcomes[index] for index in range(len(jobs))]


def require(outcomes: Sequence[Outcome]) -> None:
    """Raises `JobError` with the reports of those that failed."""
    failed = [outcome for outcome in outcomes if not outcome.ok]
    if failed:
        raise JobError(
            f"{len(failed)} of {len(outcomes)} commands failed\n" + "\n".join(outcome.report() for outcome in failed)
        )


def end_process(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and those in its process group: SIGTERM, then SIGKILL."""
    for number, patience in ((signal.SIGTERM, TERMINATE_SECONDS), (signal.SIGKILL, None)):
        if process.poll() is not None:
            return
        try:
            os.killpg(process.pid, number)
            process.wait(patience)
        except ProcessLookupError:
            process.wait()
        except subprocess.TimeoutExpired:
            continue


def exit_text(code: int) -> str:
    """`status 3` or `signal SIGSEGV`."""
    if code >= 0:
        return f"status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def tail(path: Path, lines: int = TAIL_LINES) -> str:
    """The last lines of a text file, indented."""
    try:
        text = path.read_text(errors="replace")
    except OSError as error:
        return f"    (no {path}: {error.strerror})"
    return "\n".join(f"    {line}" for line in text.splitlines()[-lines:]) or "    (empty)"


def _outcome(job: Job, code: int | None) -> Outcome:
    return Outcome(job.host, job.argv, code, time.monotonic() - job.started, job.stdout, job.stderr)
