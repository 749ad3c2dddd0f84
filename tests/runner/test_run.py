"""The test runner itself: verdicts, skips, time limits."""

from __future__ import annotations

import importlib.util
import sys
import time
from pathlib import Path

import pytest

SPEC = importlib.util.spec_from_file_location("run", Path(__file__).parents[1] / "run.py")
assert SPEC is not None
assert SPEC.loader is not None
runner = importlib.util.module_from_spec(SPEC)
sys.modules["run"] = runner
SPEC.loader.exec_module(runner)

LIBTEST = """
running 4 tests
test a::works ... ok
test a::needs_bmv2 ... ok
test a::breaks ... FAILED
test a::later ... ignored, takes an hour

successes:

---- a::needs_bmv2 stdout ----
skipped: simple_switch_grpc not found

failures:

---- a::breaks stdout ----
thread 'a::breaks' panicked at src/a.rs:1:1:
left: 1, right: 2

failures:
    a::breaks

test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s
"""


@pytest.fixture(autouse=True)
def reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "REPORTS", tmp_path)
    monkeypatch.setattr(runner, "ROOT", tmp_path)


def verdicts(wanted: list[str], output: str, code: int | None = 101) -> dict[str, tuple[str, str]]:
    cases = runner.rust_cases("wire lib", wanted, runner.Run(code, output, 1.0), "unit-wire")
    return {case.name.removeprefix("wire lib "): (case.verdict, case.reason) for case in cases}


def test_libtest_output_becomes_verdicts_with_reasons() -> None:
    found = verdicts(["a::works", "a::needs_bmv2", "a::breaks", "a::later"], LIBTEST)
    assert found["a::works"] == ("passed", "")
    assert found["a::needs_bmv2"] == ("skipped", "simple_switch_grpc not found")
    assert found["a::later"] == ("skipped", "takes an hour")
    assert found["a::breaks"][0] == "failed"
    assert "left: 1, right: 2" in found["a::breaks"][1]


def test_test_without_a_verdict_has_failed() -> None:
    assert verdicts(["a::works", "a::hangs"], LIBTEST, None)["a::hangs"][0] == "failed"


@pytest.mark.parametrize(
    ("target", "test", "tier"),
    [
        ("inca_wire", "frame::tests::round_trip", "unit"),
        ("inca_wire", "frame::tests::golden_frames", "golden"),
        ("inca_wire", "numbers::property_tests::sum_is_exact", "property"),
        ("inca_wire", "numbers::proptests::sum_is_exact", "property"),
        ("diff_bmv2", "same_bytes", "diff"),
        ("inca_switch", "difference_of_words", "unit"),
        ("inca_controller", "properties_of_a_switch", "property"),
        ("tree_exact", "i32_sums_are_exact", "property"),
        ("inca_controller", "tree::tests::proposal_is_kept", "unit"),
    ],
)
def test_tier_follows_from_the_name(target: str, test: str, tier: str) -> None:
    assert runner.tier_of(runner.Binary("p", target, Path("x"), Path("y")), test) == tier


def test_command_over_its_limit_is_ended_with_its_children() -> None:
    started = time.monotonic()
    done = runner.run(["sh", "-c", "echo begun; sleep 60 & sleep 60"], 0.3, "slow", Path("/"))
    assert time.monotonic() - started < 5
    assert done.code is None
    assert done.output == "begun\n"
    assert "timed out" in done.end()


def test_tier_line_counts_and_gives_reasons() -> None:
    tier = runner.Tier("diff", [runner.Case("a", "passed"), *[runner.Case("b", "skipped", "no BMv2")] * 2], 3.2)
    assert tier.line() == "differential      passed   1 passed, 0 failed, 2 skipped  (3 s)  skipped: 2 x no BMv2"
    assert runner.Tier("net").line().endswith("skipped: no tests")


def test_pytest_report_becomes_cases(tmp_path: Path) -> None:
    report = tmp_path / "r.xml"
    report.write_text(
        '<testsuites><testsuite><testcase classname="t" name="ok"/>'
        '<testcase classname="t" name="bad"><failure message="m">assert 1 == 2</failure></testcase>'
        '<testcase classname="t" name="not"><skipped message="simple_switch_grpc not found"/></testcase>'
        "</testsuite></testsuites>"
    )
    assert [(case.name, case.verdict, case.reason) for case in runner.junit_cases(report)] == [
        ("t ok", "passed", ""),
        ("t bad", "failed", "assert 1 == 2"),
        ("t not", "skipped", "simple_switch_grpc not found"),
    ]
