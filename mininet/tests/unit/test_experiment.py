"""Bounds by arithmetic, results that survive interruptions, figures of rows."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from inca_net.bounds import ring_bound, tree_bound
from inca_net.experiment import time_left
from inca_net.experiment_file import Experiment, Size, parse_experiment, read_experiment
from inca_net.processes import JobError
from inca_net.report import cell_text, figures, size_text, write_report
from inca_net.results import Results, read_cells
from inca_net.sampling import Window, busy_cpu
from inca_net.topology import TopologyError, shape

TEXT = "networks: [{topology: single, workers: [2], rates: {host: 10}}]\njobs: [{kind: gloo}]\nsizes: [8, 64, 512]\n"


def experiment(text: str = TEXT) -> Experiment:
    return parse_experiment(text, "f.yaml", "f")


def row(seconds: float, repetition: int = 1, size: int = 8, **more: Any) -> dict[str, Any]:
    fields = {"network": "n", "switch": "embedded", "job": "inca", "bytes": size, "seconds": seconds, "ranks": 2}
    fields |= {"repetition": repetition, "ring_bound_seconds": None, "host_mbit": 10, "switch_mbit": None, "wrong": 0}
    return fields | more


# 4 MiB of f32 in 32-bit lanes: 3277 chunks of 5 words, each a frame of 14 + 20 + 8 + 40 + 1280 bytes.
CHUNKS, FRAME = 3277, 1362
# The last chunk has 4 words.
BYTES = 3277 * 82 + 16384 * 256


def test_a_host_link_carries_every_chunk_once() -> None:
    network = shape("single", "n", [8], rate_mbit=50)
    bound = tree_bound(network, 4 << 20, "i32", "i32", 5)
    assert bound is not None
    assert bound.seconds == pytest.approx(BYTES * 8 / 50e6)
    assert BYTES == CHUNKS * FRAME - 256
    assert bound.link == "h1-leaf1"


def test_an_uplink_of_the_same_rate_carries_both_planes() -> None:
    network = shape("tree2", "n", [4, 4], rate_mbit=50)
    bound = tree_bound(network, 4 << 20, "i32", "i32", 5)
    assert bound is not None
    assert bound.seconds == pytest.approx(2 * BYTES * 8 / 50e6)
    assert bound.link == "leaf1-spine1"


def test_narrow_lanes_take_fewer_chunks_and_exact_sums_have_no_bound() -> None:
    network = shape("single", "n", [8], rate_mbit=50)
    bound = tree_bound(network, 4 << 20, "f32", "bfp8", 5)
    assert bound is not None
    assert bound.seconds == pytest.approx((820 * 82 + 4096 * 256) * 8 / 50e6)
    assert tree_bound(network, 4 << 20, "f32", "exact", 5) is None
    assert tree_bound(shape("single", "n", [8]), 4 << 20, "f32", "bfp8", 5) is None


def test_a_ring_moves_nearly_every_byte_twice() -> None:
    network = shape("tree2", "n", [4, 4], rate_mbit=50)
    bound = ring_bound(network, 4 << 20)
    assert bound is not None
    # The ring crosses each up-link once in each direction, so they carry no more than a host's link.
    assert bound.seconds == pytest.approx(2 * 7 / 8 * (4 << 20) * 1514 / 1448 * 8 / 50e6)


def test_cpu_counts_while_the_links_are_busy() -> None:
    idle, busy = Window(20, 20, 0), Window(20, 5, 1000)
    assert busy_cpu([idle, busy, busy, idle]) == 0.75
    assert busy_cpu([idle]) is None
    assert busy_cpu([]) is None


def test_an_interrupted_run_goes_on_with_whole_cells(tmp_path: Path) -> None:
    first = Results(tmp_path, experiment())
    first.open(resume=False)
    first.append({"cell": "a", "rows": [row(1.0)]})
    first.append({"cell": "b", "failed": "out of time"})
    with (tmp_path / "cells.jsonl").open("a") as file:
        file.write('{"cell": "c", "rows": [')
    second = Results(tmp_path, experiment())
    second.open(resume=True)
    assert [second.is_done(key) for key in "abc"] == [True, False, False]
    second.append({"cell": "c", "rows": [row(2.0)]})
    assert [cell["cell"] for cell in read_cells(tmp_path / "cells.jsonl")] == ["a", "b", "c"]
    assert [each["seconds"] for each in second.rows] == [1.0, 2.0]


def test_results_are_neither_mixed_nor_lost(tmp_path: Path) -> None:
    Results(tmp_path, experiment()).open(resume=False)
    with pytest.raises(TopologyError, match="holds results: --resume goes on"):
        Results(tmp_path, experiment()).open(resume=False)
    with pytest.raises(TopologyError, match="holds results of another experiment"):
        Results(tmp_path, experiment(TEXT + "iterations: 3\n")).open(resume=True)
    Results(tmp_path, experiment(TEXT + "iterations: 3\n")).open(resume=False, again=True)


def test_skipped_and_failed_cells_are_tried_again(tmp_path: Path) -> None:
    results = Results(tmp_path, experiment())
    results.open(resume=False)
    for cell in ("a", "b", "c"):
        results.append({"cell": cell, "skipped": "mpicc not found"})
    results.append({"cell": "a", "rows": [row(1.0)]})
    results.append({"cell": "b", "failed": "out of time"})
    again = Results(tmp_path, experiment())
    again.open(resume=True)
    assert [again.is_done(key) for key in "abc"] == [True, False, False]
    assert (again.failed, again.skipped) == ({"b": "out of time"}, {"c": "mpicc not found"})
    again.append({"cell": "b", "rows": [row(2.0)]})
    assert again.failed == {}


def test_a_networks_file_that_changed_is_noticed(tmp_path: Path) -> None:
    network, file = tmp_path / "net.yaml", tmp_path / "e.yaml"
    network.write_text("topology: single\nworkers: [3]\n")
    file.write_text("networks: [{file: net.yaml}]\njobs: [{kind: gloo}]\nsizes: [8]\n")
    Results(tmp_path / "r", read_experiment(file)).open(resume=False)
    Results(tmp_path / "r", read_experiment(file)).open(resume=True)
    network.write_text("topology: single\nworkers: [3]\nrate: 10\n")
    with pytest.raises(
        TopologyError, match="results of other networks than the files describe now, different are net:"
    ):
        Results(tmp_path / "r", read_experiment(file)).open(resume=True)
    Results(tmp_path / "r", read_experiment(file)).open(resume=False, again=True)
    Results(tmp_path / "r", read_experiment(file)).open(resume=True)


def test_sizes_share_the_time_limit_of_their_job() -> None:
    now = time.monotonic()
    assert 8.0 < time_left(now + 10, 120.0, Size(8, 1, 1)) <= 10.0
    with pytest.raises(JobError, match="over its time_limit of 120 s before the size of 64 bytes"):
        time_left(now - 1, 120.0, Size(64, 1, 1))


def test_a_broken_line_is_named(tmp_path: Path) -> None:
    (tmp_path / "cells.jsonl").write_text('{"cell": "a"}\nnonsense\n')
    with pytest.raises(TopologyError, match=r"cells.jsonl:2: no JSON"):
        read_cells(tmp_path / "cells.jsonl")


def test_figures_are_medians_of_repetitions() -> None:
    found = figures([row(1.0, 1), row(9.0, 2), row(2.0, 3), row(5.0, 1, 64)])
    assert [(each.bytes, each.seconds, each.lowest, each.highest) for each in found] == [(8, 2, 1, 9), (64, 5, 5, 5)]
    assert cell_text(found[0]) == "2000.000 (1000.000 to 9000.000)"
    assert figures([row(1.0, mean_seconds=3.0)])[0].seconds == 3.0
    bounded = figures([row(1.1, bound_seconds=1.0)])
    assert cell_text(bounded[0]) == "1100.000 [1.10]"
    assert [size_text(size) for size in (8, 1024, 4 << 20, 1500)] == ["8 B", "1 KiB", "4 MiB", "1500 B"]


def test_a_report_has_tables_and_plots(tmp_path: Path) -> None:
    results = Results(tmp_path, experiment())
    results.open(resume=False)
    results.append({"cell": "a", "rows": [row(size / 1e3, 1, size, ring_bound_seconds=0.001) for size in (8, 64, 512)]})
    results.append({"cell": "b", "skipped": "mpicc not found"})
    results.append({"cell": "c", "failed": "2 of 2 commands failed\nh1: out of time"})
    results.write_rows()
    write_report(results)
    text = (tmp_path / "report.md").read_text()
    assert "| inca | 8.000 | 64.000 | 512.000 |" in text
    assert "Skipped:\n\n* b: mpicc not found\n" in text
    assert "Failed:\n\n* c: 2 of 2 commands failed\n\n      h1: out of time\n" in text
    found = results.json()
    assert found["failed"] == [{"cell": "c", "reason": "2 of 2 commands failed\nh1: out of time"}]
    assert found["skipped"] == [{"cell": "b", "reason": "mpicc not found"}]
    assert len(found["rows"]) == 3
    assert (tmp_path / "sizes-n-embedded.png").stat().st_size > 1000
    assert len(json.loads((tmp_path / "rows.json").read_text())) == 3
