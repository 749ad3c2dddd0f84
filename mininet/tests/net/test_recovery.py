"""Ranks and switches that die in the middle of a sum, by the events of `make bench-recovery`."""

from __future__ import annotations

from conftest import Start

from inca_net import recovery
from inca_net.recovery import Run

# Long enough that it can be disturbed, on an idle machine too.
SUM_BYTES = {"embedded": 16 << 20, "bmv2": 8 << 20}
# By default a failure is noticed in less than this.
NOTICED_MS = 2000.0


def run(start: Start, kind: str, spines: int) -> Run:
    """A network of two leaves, and the job that is to be disturbed."""
    return Run(start(recovery.network_of(spines, [2, 1]), switch=kind), SUM_BYTES[kind])


def test_l2_survivors_of_a_killed_worker_end_with_its_name(kind: str, start: Start) -> None:
    row = recovery.worker_killed(run(start, kind, 1))
    assert row.outcome == "error", row
    assert "rank 2 is missing" in row.error, row
    assert (row.detect_ms or NOTICED_MS) < NOTICED_MS, row


def test_l2_a_frozen_worker_is_dead_and_stays_so(kind: str, start: Start) -> None:
    row = recovery.worker_frozen(run(start, kind, 1))
    assert row.outcome == "error", row
    assert "rank 2 is missing" in row.error, row


def test_l2_survivors_of_a_killed_worker_go_on_as_a_smaller_group(kind: str, start: Start) -> None:
    row = recovery.worker_killed_shrink(run(start, kind, 1))
    assert row.outcome == "exact", row


def test_l2_a_worker_that_is_started_again_joins_a_new_generation(kind: str, start: Start) -> None:
    row = recovery.worker_restarted(run(start, kind, 1))
    assert row.outcome == "exact", row


def test_m2_a_killed_spine_or_a_cut_link_is_replaced_by_another(kind: str, start: Start) -> None:
    row = recovery.root_killed("spine killed")(run(start, kind, 2))
    assert row.outcome == "exact", row
    assert (row.detect_ms or NOTICED_MS) < NOTICED_MS, row


def test_m2_a_switch_that_restarts_empty_is_put_to_work_again(kind: str, start: Start) -> None:
    row = recovery.switch_restarted(run(start, kind, 1))
    assert row.outcome == "exact", row
