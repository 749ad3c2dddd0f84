#!/usr/bin/env python3
"""Runs the test tiers, never hangs, and says in one line per tier what passed, failed or was skipped and why.

    tests/run.py                   all tiers
    tests/run.py unit golden       some of them
    tests/run.py --list            which test belongs to which tier

A Rust test belongs to a tier by the name of its program or its path: `golden` makes it golden; `property`,
`proptests` or a program `tree_...` (whole trees under every single loss or random schedules) property;
`differential`, `diff_...` or `bmv2` differential; everything else is unit. A Rust test that can't run prints a line
`skipped: REASON` and returns; it is then counted as skipped. Python tests are pytest's.

Logs and the summary (test.json) go to target/reports.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
REPORTS = ROOT / "target" / "reports"
# Debian's interpreter is the one that has Mininet.
PYTHON = "/usr/bin/python3" if Path("/usr/bin/python3").exists() else sys.executable

TIERS = ("unit", "property", "golden", "diff", "net")
TITLES = {
    "unit": "unit",
    "property": "property",
    "golden": "golden",
    "diff": "differential",
    "net": "emulated network",
}
RUST_TIERS = (
    ("golden", re.compile(r"golden")),
    ("diff", re.compile(r"(^|::|_)(differential|bmv2|diff)(_|::|$)")),
    ("property", re.compile(r"(^|::|_)(property|properties|prop|props|proptests?)(_|::|$)|^tree_")),
)
# Seconds. Generous: they are there against hanging, not as a measure.
BUILD_LIMIT = 1500
BINARY_LIMIT = 420
NET_LIMIT = 900
PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"


@dataclass
class Case:
    """One test and what became of it."""

    name: str
    verdict: str
    reason: str = ""


@dataclass
class Tier:
    """A tier's cases and time."""

    name: str
    cases: list[Case] = field(default_factory=list)
    seconds: float = 0.0

    def count(self, verdict: str) -> int:
        """How many ended so."""
        return sum(case.verdict == verdict for case in self.cases)

    def line(self) -> str:
        """The tier in one line."""
        verdict = FAILED if self.count(FAILED) else PASSED if self.count(PASSED) else SKIPPED
        text = (
            f"{TITLES[self.name]:<17} {verdict:<8} "
            f"{self.count(PASSED)} passed, {self.count(FAILED)} failed, {self.count(SKIPPED)} skipped"
        )
        reasons = Counter(case.reason for case in self.cases if case.verdict == SKIPPED)
        notes = [f"{count} x {reason}" if count > 1 else reason for reason, count in reasons.most_common()]
        if not self.cases:
            notes = ["no tests"]
        return text + f"  ({self.seconds:.0f} s)" + (f"  skipped: {'; '.join(notes)}" if notes else "")


@dataclass(frozen=True)
class Binary:
    """A Rust test program as cargo built it."""

    package: str
    target: str
    path: Path
    folder: Path


@dataclass
class Run:
    """Output and end of a command; `code` is None if it ran out of time."""

    code: int | None
    output: str
    seconds: float

    def end(self) -> str:
        """How it ended, for messages."""
        return f"timed out after {self.seconds:.0f} s" if self.code is None else f"exit code {self.code}"


def main() -> int:
    """Parses arguments, runs the tiers, prints the summary."""
    parser = argparse.ArgumentParser(description="Runs the test tiers.")
    parser.add_argument("tiers", nargs="*", metavar="TIER", help=f"{', '.join(TIERS)} (default: all)")
    parser.add_argument("--list", action="store_true", help="list the Rust tests and their tiers")
    arguments = parser.parse_args()
    unknown = [tier for tier in arguments.tiers if tier not in TIERS]
    if unknown:
        parser.error(f"unknown tier '{unknown[0]}', known are {', '.join(TIERS)}")
    chosen = [tier for tier in TIERS if tier in arguments.tiers] or list(TIERS)

    REPORTS.mkdir(parents=True, exist_ok=True)
    binaries, build_problems = build(chosen)
    if arguments.list:
        for binary in binaries:
            for name in list_tests(binary) or []:
                print(f"{tier_of(binary, name):<9} {binary.package} {binary.target} {name}")
        return 0

    tiers = []
    for name in chosen:
        tier = Tier(name)
        started = time.monotonic()
        # A program that does not compile fails the first tier that runs, once.
        tier.cases += build_problems
        build_problems = []
        if name != "net":
            run_rust(tier, binaries)
        for suite in SUITES[name]:
            suite(tier)
        tier.seconds = time.monotonic() - started
        print(tier.line(), flush=True)
        for case in tier.cases:
            if case.verdict == FAILED:
                print(f"    FAILED {case.name}: {case.reason}", flush=True)
        tiers.append(tier)
    write_report(tiers)
    totals = {verdict: sum(tier.count(verdict) for tier in tiers) for verdict in (PASSED, FAILED, SKIPPED)}
    print(f"{totals[PASSED]} passed, {totals[FAILED]} failed, {totals[SKIPPED]} skipped")
    return 1 if totals[FAILED] or not totals[PASSED] else 0


def build(chosen: Sequence[str]) -> tuple[list[Binary], list[Case]]:
    """Builds the programs and, if needed, all Rust test programs."""
    started = time.monotonic()
    problems = []
    programs = run(
        ["cargo", "build", "--workspace", "--lib", "--bins", "--message-format=short"], BUILD_LIMIT, "build-programs"
    )
    if programs.code != 0:
        problems.append(Case("cargo build --lib --bins", FAILED, f"{programs.end()}\n{last_lines(programs.output)}"))
    binaries: list[Binary] = []
    if chosen != ["net"]:
        # As `cargo test --no-run` builds them, but a program that does not compile keeps no other from being tested.
        command = ["cargo", "build", "--workspace", "--tests", "--keep-going"]
        command += ["--message-format=json-render-diagnostics"]
        tests = run(command, BUILD_LIMIT, "build-tests")
        if tests.code != 0:
            rendered = "\n".join(line for line in tests.output.splitlines() if not line.startswith("{"))
            problems.append(Case("cargo build --tests", FAILED, f"{tests.end()}\n{last_lines(rendered)}"))
        binaries = [binary for line in tests.output.splitlines() if (binary := parse_artifact(line))]
    print(f"build             {FAILED if problems else PASSED:<8} ({time.monotonic() - started:.0f} s)", flush=True)
    return binaries, problems


def parse_artifact(line: str) -> Binary | None:
    """A test program from one line of cargo's JSON."""
    if not line.startswith("{"):
        return None
    message = json.loads(line)
    if message.get("reason") != "compiler-artifact" or not message.get("executable"):
        return None
    if not message["profile"]["test"]:
        return None
    folder = Path(message["manifest_path"]).parent
    return Binary(folder.name, message["target"]["name"], Path(message["executable"]), folder)


def tier_of(binary: Binary, test: str) -> str:
    """The tier a Rust test belongs to."""
    path = f"{binary.target}::{test}"
    for tier, pattern in RUST_TIERS:
        if pattern.search(path):
            return tier
    return "unit"


def list_tests(binary: Binary) -> list[str] | None:
    """The tests inside a program; None if it can't even list them."""
    listed = run([str(binary.path), "--list", "--format=terse"], 30, None, binary.folder)
    if listed.code != 0:
        return None
    return [line.removesuffix(": test") for line in listed.output.splitlines() if line.endswith(": test")]


def run_rust(tier: Tier, binaries: Sequence[Binary]) -> None:
    """Runs those tests of all programs that belong to the tier."""
    for binary in binaries:
        names = list_tests(binary)
        if names is None:
            if tier.name == "unit":
                tier.cases.append(Case(f"{binary.package} {binary.target}", FAILED, "can't list its tests"))
            continue
        wanted = [name for name in names if tier_of(binary, name) == tier.name]
        if not wanted:
            continue
        command = [str(binary.path), "--color=never", "--show-output"]
        if len(wanted) < len(names):
            command += ["--exact", *wanted]
        label = f"{tier.name}-{binary.package}-{binary.target}"
        done = run(command, BINARY_LIMIT, label, binary.folder)
        tier.cases += rust_cases(f"{binary.package} {binary.target}", wanted, done, label)


def rust_cases(prefix: str, wanted: Sequence[str], done: Run, label: str) -> list[Case]:
    """Verdicts from libtest's output; a test without a verdict has failed."""
    verdicts: dict[str, tuple[str, str]] = {}
    skipped: dict[str, str] = {}
    section = ""
    for line in done.output.splitlines():
        if match := re.match(r"test (\S+)(?: - should panic)? \.\.\. (ok|FAILED|ignored)(?:, (.*))?", line):
            verdict = {"ok": PASSED, "FAILED": FAILED, "ignored": SKIPPED}[match[2]]
            verdicts[match[1]] = (verdict, match[3] or ("ignored" if verdict == SKIPPED else ""))
        elif match := re.match(r"---- (\S+) stdout ----", line):
            section = match[1]
        elif line.startswith("skipped: ") and section:
            skipped[section] = line.removeprefix("skipped: ").strip()
    cases = []
    for name in wanted:
        verdict, reason = verdicts.get(name, (FAILED, f"no verdict: {done.end()}"))
        if verdict == PASSED and name in skipped:
            verdict, reason = SKIPPED, skipped[name]
        if verdict == FAILED:
            reason = (reason or failure_text(done.output, name)) + f"\n        log: {log_path(label).relative_to(ROOT)}"
        cases.append(Case(f"{prefix} {name}", verdict, reason))
    return cases


def failure_text(output: str, name: str) -> str:
    """What a failed libtest test printed, shortened."""
    _, _, rest = output.partition(f"---- {name} stdout ----\n")
    text = rest.partition("\n---- ")[0].partition("\nfailures:\n")[0]
    return last_lines(text, 12)


def doc_tests(tier: Tier) -> None:
    """The examples in the documentation of the crates."""
    done = run(["cargo", "test", "--workspace", "--doc", "--no-fail-fast"], BUILD_LIMIT, "unit-doc")
    names = re.findall(r"^test (.+?) \.\.\. (ok|FAILED|ignored)", done.output, re.MULTILINE)
    for name, verdict in names:
        outcome = {"ok": PASSED, "FAILED": FAILED, "ignored": SKIPPED}[verdict]
        reason = {PASSED: "", SKIPPED: "ignored", FAILED: failure_text(done.output, name)}[outcome]
        tier.cases.append(Case(f"doc {name}", outcome, reason))
    if done.code != 0 and not any(verdict == "FAILED" for _, verdict in names):
        tier.cases.append(Case("doc tests", FAILED, f"{done.end()}\n{last_lines(done.output)}"))


def p4_fresh(tier: Tier) -> None:
    """Whether p4/compiled belongs to the P4 sources."""
    done = run([PYTHON, "p4/build.py", "--check"], 600, "golden-p4")
    tier.cases.append(Case("p4/build.py --check", PASSED if done.code == 0 else FAILED, last_lines(done.output)))


def p4_plain(tier: Tier) -> None:
    """Whether the program as p4c leaves it, without p4/fuse.py, sends the same for the recorded frames."""
    name = "the program as p4c leaves it sends the same"
    if not shutil.which("p4c-bm2-ss"):
        tier.cases.append(Case(name, SKIPPED, "p4c-bm2-ss not found"))
        return
    folder = TARGET / "p4-plain"
    done = run([PYTHON, "p4/build.py", "--plain", str(folder)], 600, "golden-plain-p4")
    if done.code == 0:
        command = ["cargo", "test", "-p", "inca-tests", "--test", "golden_bmv2"]
        done = run(command, BUILD_LIMIT, "golden-plain", env={"INCA_COMPILED": str(folder)})
    tier.cases.append(Case(name, PASSED if done.code == 0 else FAILED, last_lines(done.output)))


def pytest(tier: Tier, label: str, paths: Sequence[str], limit: float, prefix: Sequence[str] = ()) -> None:
    """Runs pytest on files that exist; verdicts come from its XML report."""
    present = [path for path in paths if (ROOT / path).exists()]
    if not present:
        return
    report = REPORTS / f"{label}.xml"
    report.unlink(missing_ok=True)
    command = list(prefix) or [PYTHON, "-m", "pytest"]
    command += ["-q", "-p", "no:cacheprovider", f"--junitxml={report}", *present]
    env = {"PYTHONPATH": str(ROOT / "mininet"), "PYTHONDONTWRITEBYTECODE": "1"}
    # The programs that were just built, not newer ones of another profile.
    env["INCA_BIN_DIR"] = str(TARGET / "debug")
    done = run(command, limit, label, env=env)
    cases = junit_cases(report) if report.exists() else []
    tier.cases += cases
    if done.code != 0 and not any(case.verdict == FAILED for case in cases):
        tier.cases.append(Case(label, FAILED, f"{done.end()}\n{last_lines(done.output)}"))


def junit_cases(report: Path) -> list[Case]:
    """Cases from pytest's XML report."""
    cases = []
    for node in ElementTree.parse(report).getroot().iter("testcase"):
        name = f"{node.get('classname', '')} {node.get('name', '')}".strip()
        verdict, reason = PASSED, ""
        for child in node:
            if child.tag in ("failure", "error"):
                verdict, reason = FAILED, last_lines(child.text or child.get("message") or "", 25)
            elif child.tag == "skipped":
                verdict, reason = SKIPPED, (child.get("message") or "skipped").removeprefix("skipped: ")
        cases.append(Case(name, verdict, reason))
    return cases


def python_unit(tier: Tier) -> None:
    """Python tests that need no network."""
    pytest(tier, "unit-python", ["mininet/tests/unit", "tests/runner"], 180)


def python_net(tier: Tier) -> None:
    """Tests on emulated networks, in namespaces of their own."""
    isolation = run(
        [PYTHON, "-m", "inca_net", "doctor", "--can-emulate"],
        30,
        "net-doctor",
        env={"PYTHONPATH": str(ROOT / "mininet")},
    )
    if isolation.code != 0:
        tier.cases.append(Case("emulated networks", SKIPPED, last_lines(isolation.output, 1).strip()))
        return
    prefix = [PYTHON, "-m", "inca_net", "pytest", "--name", f"test-{os.getpid()}", "--time-limit", str(NET_LIMIT)]
    pytest(tier, "net-python", ["mininet/tests/net"], NET_LIMIT + 30, prefix)


SUITES: dict[str, list[Callable[[Tier], None]]] = {
    "unit": [doc_tests, python_unit],
    "property": [],
    "golden": [p4_fresh, p4_plain],
    "diff": [],
    "net": [python_net],
}


def run(
    command: Sequence[str], limit: float, label: str | None, folder: Path = ROOT, env: dict[str, str] | None = None
) -> Run:
    """Runs a command with a time limit, in its own process group; output goes to a log as well."""
    started = time.monotonic()
    environment = {**os.environ, "CARGO_TERM_COLOR": "never", "CARGO_MANIFEST_DIR": str(folder), **(env or {})}
    if folder == ROOT:
        environment.pop("CARGO_MANIFEST_DIR")
    log = log_path(label or "list")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env=environment,
        )
        code: int | None
        try:
            code = process.wait(limit)
        except subprocess.TimeoutExpired:
            code = None
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(15)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()
    return Run(code, log.read_text(errors="replace"), time.monotonic() - started)


def log_path(label: str) -> Path:
    """Where a command's output is kept."""
    return REPORTS / f"{label}.log"


def last_lines(text: str, count: int = 30) -> str:
    """The end of a text, indented for the summary."""
    lines = [line for line in text.splitlines() if line.strip()][-count:]
    return "\n".join(f"        {line}" for line in lines).strip()


def write_report(tiers: Sequence[Tier]) -> None:
    """target/reports/test.json: everything, for machines."""
    report = {
        "tiers": [
            {
                "tier": tier.name,
                "seconds": round(tier.seconds, 1),
                **{verdict: tier.count(verdict) for verdict in (PASSED, FAILED, SKIPPED)},
                "cases": [vars(case) for case in tier.cases],
            }
            for tier in tiers
        ]
    }
    (REPORTS / "test.json").write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    sys.exit(main())
