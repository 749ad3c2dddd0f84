"""The Python package on emulated hosts: right sums in NumPy's arrays, and wrong use refused by name."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import RUN_DIR

from inca_net import topology
from inca_net.emulation import Emulation, Settings
from inca_net.package import python_package

WORKER = str(Path(__file__).with_name("python_worker.py"))
COMMAND = ["--controller", "{controller}", "--interface", "{interface}", "--rank", "{rank}", "--world", "{world}"]
RANKS = 4


@pytest.fixture(scope="module")
def network() -> Iterator[Emulation]:
    folder = RUN_DIR / "python"
    shutil.rmtree(folder, ignore_errors=True)
    with Emulation(topology.tree2("t", [3, 1]), Settings(run_dir=folder)) as emulation:
        yield emulation


def run(network: Emulation, scenario: str) -> list[dict[str, Any]]:
    env = {"PYTHONPATH": str(python_package())}
    command = [sys.executable, WORKER, scenario, *COMMAND]
    return [outcome.json() for outcome in network.run_workers(lambda _worker: command, scenario, 90, env)]


def test_arrays_are_summed_where_they_lie(network: Emulation) -> None:
    for report in run(network, "exact"):
        assert report["wrong"] == []
        assert report["chunks"] >= 30
        assert report["closed"] == "GroupClosed"


def test_s4_strided_and_other_wrong_arrays_are_refused_by_name(network: Emulation) -> None:
    for report in run(network, "misuse"):
        assert report["found"] == {
            "column": "ArrayError",
            "every second": "ArrayError",
            "transposed": "ArrayError",
            "read-only": "ArrayError",
            "float64": "DtypeError",
            "big-endian": "DtypeError",
            "list": "DtypeError",
            "int32 in bfp16": "Unsupported",
            "max in bfp16": "Unsupported",
            "unknown op": "Unsupported",
            "short output": "OutputMismatch",
            "overlap": "ArrayError",
            "dtype of another size": "DtypeError",
            "negative timeout": "JoinOptionsError",
            "bad rank": "JoinOptionsError",
        }
        assert report["untouched"]
        assert report["goes_on"]
        assert report["alone"] == [1.0, -2.5]


def test_ranks_that_differ_all_get_the_same_kind_of_error(network: Emulation) -> None:
    for report in run(network, "mismatch"):
        assert report["found"] == {
            "length": "Mismatch",
            "after": "GroupClosed",
            "op": "Mismatch",
            "overflow": "Overflow",
            "after overflow": str(RANKS),
        }


def test_a_deadline_names_who_is_missing_and_a_cancelled_call_ends(network: Emulation) -> None:
    first, *others = run(network, "absent")
    assert first["raised"] == "DeadlineExceeded"
    assert 0.5 < first["spent"] < 10
    assert set(first["missing"]) <= {1, 2, 3}
    assert first["cancelled"] == "Cancelled"
    for report in others:
        assert report["raised"] in ("Closed", "GroupClosed")


def test_every_collective_is_right_and_wrong_use_is_named(network: Emulation) -> None:
    for report in run(network, "collectives"):
        assert report["wrong"] == []
        assert report["found"] == {
            "root": "RootError",
            "gather": "OutputMismatch",
            "scatter": "OutputMismatch",
            "types": "OutputMismatch",
            "uneven": "OutputMismatch",
            "nobody": "RanksError",
            "never sent": "DeadlineExceeded",
            "other shape": "OutputMismatch",
            "roots differ": "Mismatch",
        }


def test_groups_within_a_group_are_apart_and_in_order(network: Emulation) -> None:
    for rank, report in enumerate(run(network, "groups")):
        assert report["wrong"] == []
        in_column = 1 - rank // 2
        assert report["places"] == [rank % 2, 2, in_column, {0: 1, 2: 0}.get(rank)]
        assert report["found"] == {"strangers": "RanksError", "twice": "RanksError", "disagreement": "Disagreement"}


def test_operations_in_another_order_at_one_rank_are_an_error_everywhere(network: Emulation) -> None:
    for report in run(network, "swapped"):
        assert set(report["found"]) <= {"Mismatch", "Closed"}
        assert "Mismatch" in report["found"]
        assert report["unmixed"]


def test_s5_one_array_twice_in_flight_is_refused_and_jobs_never_mix(network: Emulation) -> None:
    for report in run(network, "twice"):
        assert report["wrong"] == []
        assert report["found"] == {"same": "ArrayError", "part": "ArrayError"}
