"""A soak of seconds: every element compared, every part's memory watched."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from inca_net import soak
from inca_net.emulation import Emulation
from inca_net.topology import shape


def test_sums_are_right_under_loss_and_all_parts_are_watched(
    start: Callable[..., Emulation], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(soak, "REPORTS", tmp_path)
    emulation = start(shape("tree2", "soak", [1, 1], loss=0.01), switch="embedded")
    assert soak.run(emulation, 4.0, 1 << 16, "bfp16", as_json=True) == 0
    # The report of a run that counts is left alone.
    assert [path.name for path in tmp_path.iterdir()] == ["soak-trial.json"]
    report = json.loads((tmp_path / "soak-trial.json").read_text())
    assert report["operations"] > 10
    assert report["wrong"] == 0
    assert report["elements_compared"] == 2 * report["operations"] * (16384 - 1)
    names = [each["name"] for each in report["memory"]]
    assert names == ["agent of h1", "agent of h2", "switch leaf1", "switch leaf2", "switch spine1", "controller"]
    assert all(each["kib"] and each["last_kib"] > 1000 for each in report["memory"])
