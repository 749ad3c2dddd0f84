"""DistributedDataParallel with inca's hook beside gloo, where PyTorch is installed."""

from __future__ import annotations

import pytest
from conftest import Start

from inca_net import topology
from inca_net.ddp import TOLERANCE, torch_missing, train


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
