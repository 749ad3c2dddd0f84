"""Experiments in YAML: what is read, and complaints that say where, what was given and what is valid."""

from __future__ import annotations

from pathlib import Path

import pytest

from inca_net.experiment_file import Experiment, Size, parse_experiment, parse_size, read_experiment
from inca_net.nodes import ROOT
from inca_net.topology import TopologyError

TEXT = """\
name: mine
networks:
  - {name: wide, topology: tree2, workers: [2, 2], rates: {host: 50, switch: 100}, losses: {switch: 0.01}}
  - {name: flat, topology: single, workers: [4], run_on: [bmv2], slots: 32}
run_on: [embedded, bmv2]
jobs:
  - {kind: inca, format: bfp16}
  - {kind: openmpi, algorithm: ring, name: ring}
  - {kind: gloo}
sizes: [8, {bytes: 4M, iterations: 3, warmup: 0}]
iterations: 20
repetitions: 2
"""


def read(text: str) -> Experiment:
    return parse_experiment(text, "f.yaml", "f")


def test_all_of_it_is_read() -> None:
    experiment = read(TEXT)
    assert [job.name for job in experiment.jobs] == ["inca-bfp16", "ring", "gloo"]
    assert experiment.sizes == (Size(8, 20, 1), Size(4 << 20, 3, 0))
    wide, flat = experiment.places
    assert (wide.network.rate_mbit, {link.rate_mbit for link in wide.network.links}) == (50, {100})
    assert (wide.network.loss, {link.loss for link in wide.network.links}) == (0, {0.01})
    assert (wide.switches, wide.slots, flat.switches, flat.slots) == (("embedded", "bmv2"), 16, ("bmv2",), 32)


def test_a_job_may_say_how_often() -> None:
    job = read(TEXT.replace("{kind: gloo}", "{kind: gloo, iterations: 5, warmup: 2}")).jobs[2]
    assert job.sizes([Size(8, 20, 1), Size(64, 3, 0)]) == [Size(8, 5, 2), Size(64, 5, 2)]


def test_jobs_take_turns_within_a_network_and_every_cell_has_a_name_of_its_own() -> None:
    cells = read(TEXT).cells()
    assert [cell.key for cell in cells[:4]] == [
        "wide/embedded/inca-bfp16/1",
        "wide/embedded/ring/1",
        "wide/embedded/gloo/1",
        "wide/embedded/inca-bfp16/2",
    ]
    assert len({cell.key for cell in cells}) == len(cells) == 3 * 2 * 3


def test_startup_is_measured_once_for_each_network_and_switch() -> None:
    cells = read(TEXT + "record: [startup]\n").cells()
    assert [cell.key for cell in cells if cell.job == "start-up"] == [
        "wide/embedded/start-up/1",
        "wide/bmv2/start-up/1",
        "flat/bmv2/start-up/1",
    ]


def test_a_network_may_be_a_file(tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text("topology: single\nworkers: [3]\n")
    (tmp_path / "e.yaml").write_text("networks: [{file: net.yaml}]\njobs: [{kind: gloo}]\nsizes: [8]\n")
    assert len(read_experiment(tmp_path / "e.yaml").places[0].network.hosts) == 3


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("kind: gloo", "kind: nccl", "f.yaml:9:12: kind 'nccl': valid are inca, openmpi, gloo"),
        ("algorithm: ring", "algorithm: rng", "8:32: algorithm 'rng': valid are linear, nonoverlapping, recursive"),
        ("algorithm: ring, ", "", "8:5: job: 'algorithm' is missing, valid are linear"),
        ("kind: gloo", "kind: gloo, format: bfp8", "9:18: unknown key 'format', valid are kind, name, iterations"),
        ("sizes: [8,", "sizes: [7,", "10:9: size '7': 4 to 1G, a multiple of 4, is valid"),
        ("bytes: 4M", "bytes: 4T", "10:20: size '4T': 4 to 1G"),
        ("bytes: 4M, ", "", "10:12: size: 'bytes' is missing"),
        ("iterations: 3", "iterations: 0", "10:36: iterations 0: 1 to 1000000 is valid"),
        ("repetitions: 2", "repetitions: many", "12:14: 'many' is not a whole number"),
        ("repetitions: 2", "repetition: 2", "12:1: unknown key 'repetition', valid are name, title, networks"),
        ("run_on: [bmv2]", "run_on: [tofino]", "4:59: run_on 'tofino': valid are embedded, bmv2"),
        ("host: 50", "hosts: 50", "3:60: unknown key 'hosts', valid are host, switch"),
        ("host: 50", "host: -1", "3:66: rates: host -1.0: 0.1 to 100000 Mbit/s is valid"),
        ("switch: 0.01", "switch: 2", "losses: switch 2.0: a probability from 0 to below 1 is valid"),
        ("name: flat", "name: wide", "3:3: network 'wide' twice, give them different names"),
        ("name: ring", "name: gloo", "7:3: job 'gloo' twice"),
        ("name: ring", "name: start-up", "job 'start-up': the name stands for"),
        ("workers: [4]", "workers: [1]", "network 'flat' has 1 host, an allreduce needs at least 2"),
        ("topology: single", "file: x.yaml, topology: single", "'topology' together with 'file'"),
        ("slots: 32", "slots: 5000", "slots 5000: 1 to 4096 is valid"),
        ("format: bfp16", "format: bfp12", "7:26: format of f32 'bfp12': valid are bfp16, bfp8, bfp32, exact"),
        ("format: bfp16", "type: i32, format: i16", "7:37: format of i32 'i16': valid are i32, i64"),
        ("run_on: [bmv2]", "run_on: []", "4:58: run_on: empty, at least 1 is needed"),
        ("run_on: [embedded, bmv2]", "run_on: []", "5:9: run_on: empty, at least 1 is needed"),
        ("sizes: [8,", "sizes: [1K, 1024,", "10:13: size of 1024 bytes twice"),
        ("sizes: [8,", "sizes: [4096K,", "10:16: size of 4194304 bytes twice"),
        (
            "name: ring}",
            "name: a b}\n  - {kind: gloo, name: a_b}",
            "jobs 'a b' and 'a_b' would both have files named 'a-b'",
        ),
    ],
)
def test_mistakes_are_named_with_their_place(old: str, new: str, complaint: str) -> None:
    assert old in TEXT
    with pytest.raises(TopologyError) as caught:
        read(TEXT.replace(old, new, 1))
    assert complaint in str(caught.value)


def test_a_place_is_named_once() -> None:
    with pytest.raises(TopologyError) as caught:
        read(TEXT.replace("sizes: [8,", "sizes: [[8],"))
    assert str(caught.value) == "f.yaml:10:9: a plain value is expected"


def test_another_name_of_a_networks_file_is_checked_too(tmp_path: Path) -> None:
    (tmp_path / "net.yaml").write_text("topology: single\nworkers: [3]\n")
    (tmp_path / "e.yaml").write_text("networks: [{file: net.yaml, name: ../x}]\njobs: [{kind: gloo}]\nsizes: [8]\n")
    with pytest.raises(TopologyError, match=r"e.yaml:1:35: name '../x': 1 to 64 letters"):
        read_experiment(tmp_path / "e.yaml")


@pytest.mark.parametrize(("text", "size"), [("8", 8), ("64K", 65536), ("4M", 4 << 20), ("1G", 1 << 30)])
def test_sizes(text: str, size: int) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("path", sorted((ROOT / "bench" / "experiments").glob("*.yaml")), ids=str)
def test_the_projects_own_are_valid(path: Path) -> None:
    assert read_experiment(path).cells()
