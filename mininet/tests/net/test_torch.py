"""PyTorch, where it is installed: the torch.distributed backend, and DistributedDataParallel beside gloo."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import RUN_DIR, Start

from inca_net import parallel, topology
from inca_net.ddp import TOLERANCE, torch_missing, train
from inca_net.emulation import Emulation, Settings
from inca_net.package import python_package

WORKER = str(Path(__file__).with_name("torch_worker.py"))


def test_ddp_learns_by_the_switches_as_by_gloo(start: Start) -> None:
    if reason := torch_missing():
        pytest.skip(reason)
    emulation = start(topology.single("t", [4]))
    ours, theirs = (train(emulation, by, 8) for by in ("inca", "gloo"))
    assert ours["agree"], "ranks ended with different parameters"
    assert theirs["agree"]
    # At least one bucket a step, the first step's included.
    assert ours["buckets"] >= 8
    assert ours["losses"][-1] < ours["losses"][0]
    assert max(abs(a - b) for a, b in zip(ours["losses"], theirs["losses"], strict=True)) <= TOLERANCE


def test_sharded_and_parallel_training_end_where_one_process_does(start: Start) -> None:
    if reason := torch_missing():
        pytest.skip(reason)
    assert parallel.run(start(topology.tree2("t", [4, 4])), 2, as_json=False) == 0


# Stays until the last of these tests has ended: those with networks of their own stand before it.
@pytest.fixture(scope="module")
def network() -> Iterator[Emulation]:
    if reason := torch_missing():
        pytest.skip(reason)
    folder = RUN_DIR / "torch"
    shutil.rmtree(folder, ignore_errors=True)
    with Emulation(topology.tree2("t", [3, 1]), Settings(run_dir=folder)) as emulation:
        yield emulation


def run(network: Emulation, port: int, *scenarios: str, **env: str) -> list[tuple[dict[str, Any], str]]:
    """What each rank reports, and all that it printed."""
    command = [sys.executable, WORKER, *scenarios, "--interface", "{interface}", "--rank", "{rank}"]
    command += ["--world", "{world}", "--master", network.network.hosts[0].address, "--port", str(port)]
    env = {"PYTHONPATH": str(python_package()), "INCA_CONTROLLER": network.controller_url} | env
    outcomes = network.run_workers(lambda _worker: command, scenarios[0], 90, env)
    return [(outcome.json(), outcome.text() + outcome.stderr.read_text()) for outcome in outcomes]


def test_backend_does_all_of_torch_distributed(network: Emulation) -> None:
    for report, text in run(network, 29510, "reductions", "copies", "groups", "model", "refused"):
        assert report["wrong"] == [], text
        assert report["checks"] >= 60
        found = report["refused"]
        for dtype in ("float64", "bool"):
            assert f"torch.{dtype}: torch.float32" in found[dtype], found
        assert found["product"].startswith("BackendError: reduction PRODUCT: SUM, AVG, MIN, MAX"), found
        assert found["anyone"].startswith("BackendError"), found
        assert found["overflow"].startswith("Overflow"), found
        assert found["mismatch"].startswith("Mismatch"), found
        assert found["after the end"] != "nothing", found


def test_backend_without_a_controller_is_an_error_or_gloo_with_a_warning(network: Emulation) -> None:
    for report, _ in run(network, 29511, "absent", INCA_CONTROLLER=""):
        assert "INCA_CONTROLLER" in report["error"]
        assert "INCA_TORCH_FALLBACK" in report["error"]
    for report, text in run(network, 29512, "absent", INCA_CONTROLLER="", INCA_TORCH_FALLBACK="gloo"):
        assert report["by"] == ["ProcessGroupGloo"] * 2
        assert report["wrong"] == []
        assert "INCA IS NOT USED" in text
