"""Promises as checks of rows, and how growth of memory is told from noise."""

from __future__ import annotations

from typing import Any

import pytest

from inca_net.checks import Check, all_checks, table
from inca_net.experiment_file import with_losses
from inca_net.soak import growth, least_loss, report_path
from inca_net.topology import shape


def row(network: str, switch: str, job: str, size: int, seconds: float, **more: Any) -> dict[str, Any]:
    kind = "inca" if job.startswith("inca") else "openmpi"
    fields = {"network": network, "switch": switch, "job": job, "kind": kind, "bytes": size, "seconds": seconds}
    fields |= {"ranks": 8, "bound_seconds": None, "bound_link": None, "wrong": 0, "cpu": 0.5}
    return fields | more


def find(checks: list[Check], *words: str) -> Check:
    found = [check for check in checks if all(word in check.name for word in words)]
    assert len(found) == 1, [check.name for check in found]
    return found[0]


def test_speed_is_held_against_the_fastest_of_the_others() -> None:
    size = 4 << 20
    rows = [
        row("n", "embedded", "inca-bfp16", size, 0.4, bound_seconds=0.38, bound_link="h1-leaf1"),
        row("n", "embedded", "openmpi-ring", size, 1.5),
        row("n", "embedded", "openmpi-linear", size, 9.0),
    ]
    checks = all_checks({"goal-embedded": rows}, {})
    speed = find(checks, "4 MiB on embedded", "inca-bfp16 times")
    assert (speed.value, speed.holds) == (pytest.approx(3.75), True)
    assert "openmpi-ring 1500.0 ms" in speed.note
    bound = find(checks, "4 MiB on embedded", "inca-bfp16, of the busiest link")
    assert (bound.value, bound.holds) == (pytest.approx(0.4 / 0.38), True)


def test_what_was_not_measured_does_not_hold() -> None:
    checks = all_checks({}, {})
    assert checks
    assert not any(check.holds for check in checks)
    assert all(check.value is None and check.note for check in checks)


def test_latency_counts_the_job_of_the_claim() -> None:
    rows = [row("n", "bmv2", "inca-bfp16", 8, 0.9e-3), row("n", "bmv2", "openmpi-linear", 8, 1.2e-3)]
    check = find(all_checks({"latency": rows}, {}), "8 bytes on bmv2")
    assert (check.value, check.holds) == (pytest.approx(0.75), False)


def test_growth_with_workers_and_the_cores_share() -> None:
    rows = []
    for ranks, ours, ring in ((2, 1.0, 1.1), (16, 1.05, 1.9)):
        rows.append(row(f"workers-{ranks}", "embedded", "inca-bfp16", 1 << 20, ours, ranks=ranks, cpu=0.01 * ranks))
        rows.append(row(f"workers-{ranks}", "embedded", "openmpi-ring", 1 << 20, ring, ranks=ranks, cpu=1.0))
    # Beyond what is promised.
    rows.append(row("workers-64", "embedded", "inca-bfp16", 1 << 20, 5.0, ranks=64, cpu=0.99))
    checks = all_checks({"scaling": rows}, {})
    grown, cpu = find(checks, "16 workers of that at 2"), find(checks, "share of the cores")
    assert (grown.value, grown.holds, grown.note) == (pytest.approx(1.05), True, "Open MPI's ring: 1.73")
    assert (cpu.value, cpu.holds) == (pytest.approx(0.16), True)


def test_data_plane_and_soak_come_from_their_reports() -> None:
    reports = {
        "dataplane": {"embedded_to_bmv2": {"least": 11.0}},
        "soak": {"seconds": 601.0, "loss": 0.01, "ranks": 8, "growth": 0.0, "wrong": 0},
    }
    checks = all_checks({}, reports)
    assert find(checks, "embedded switch, times BMv2").holds
    assert find(checks, "one core each").value is None
    assert [check.holds for check in checks if check.name.startswith("soak")] == [True] * 5


@pytest.mark.parametrize("short", [{"seconds": 30.0}, {"loss": 0.0}, {"ranks": 2}])
def test_a_soak_too_short_too_small_or_without_loss_does_not_count(short: dict[str, Any]) -> None:
    soak = {"seconds": 601.0, "loss": 0.01, "ranks": 8, "growth": 0.0, "wrong": 0} | short
    checks = [check for check in all_checks({}, {"soak": soak}) if check.name.startswith("soak")]
    assert [check.name for check in checks if check.holds] == [
        f"soak: {name}"
        for name, key in (("seconds", "seconds"), ("loss on every link", "loss"), ("ranks", "ranks"))
        if key not in short
    ]
    assert all("does not count, 600 s at 1% with 8 ranks do" in check.note for check in checks)


def test_a_trial_leaves_the_report_of_a_long_soak_alone() -> None:
    assert [report_path(seconds).name for seconds in (4.0, 599.9, 600.0)] == ["soak-trial.json"] * 2 + ["soak.json"]


def test_the_loss_of_a_soak_is_that_of_its_best_link() -> None:
    network = shape("tree2", "n", [2, 2], loss=0.02)
    assert least_loss(network) == 0.02
    assert least_loss(with_losses(network, {"switch": 0.0})) == 0.0


def test_a_wrong_element_fails() -> None:
    checks = all_checks({"equal": [row("n", "embedded", "inca-i32", 8, 1.0, wrong=2)]}, {})
    assert (find(checks, "wrong elements in all rows").holds, table(checks)[-2].count("**no**")) == (False, 1)


def test_memory_that_only_warms_up_does_not_grow() -> None:
    warm = list(range(10_000, 20_000, 200)) + [20_000] * 50
    leak = list(range(10_000, 30_000, 200))
    assert growth(warm) == 0.0
    assert growth(leak) > 0.2
    # Less than what counts.
    assert growth([50_000] * 50 + [50_900] * 50) == 0.0
    assert growth([]) == 0.0
