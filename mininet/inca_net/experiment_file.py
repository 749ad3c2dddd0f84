"""Reads an experiment from YAML. Every complaint names file, line, column, what was given and what is valid.

name: wide-uplinks              # optional, default: the file's name
title: 4 MiB over two levels    # optional, the report's first line, above all tables
networks:                       # each is a network as topology_file.py reads it, or {file: PATH}, and may have:
  - name: wide
    topology: tree2
    workers: [4, 4]
    rates: {host: 50, switch: 100}     # Mbit/s of hosts' links and of those between switches
    losses: {host: 0, switch: 0.01}    # probabilities, each direction
    run_on: [embedded]                 # instead of the experiment's
    slots: 16                          # of a tree: chunks in flight per rank
run_on: [embedded, bmv2]        # default: [embedded]; cells of one that is not installed, like those of peers that
                                # are not, are skipped; the results say why, and --resume tries them again
jobs:
  # name: optional, for tables and plots. Formats of floats: bfp16 (default), bfp8, bfp32, exact; of integers those that
  # hold the type: i8, i16, i32, i64, by default the narrowest.
  - {kind: inca, type: f32, format: bfp16, chunk_words: 5}
  - {kind: openmpi, algorithm: ring}
  - {kind: gloo, iterations: 3, warmup: 1}     # of all sizes, whatever they say
sizes: [8, 64K, {bytes: 4M, iterations: 3, warmup: 1}]    # time over size is drawn from three sizes on, time over
                                # ranks from three networks with different numbers of ranks on
iterations: 20                  # of each size that says nothing else (default: 10), after
warmup: 2                       # so many that don't count (default: 1)
repetitions: 3                  # of the whole, each job started anew (default: 1)
record: [startup, counters, pcap]   # default: rows and logs alone; time until the first sum, the switches' counters
                                # after each job, the first bytes of all packets on the hosts' links
time_limit: 120                 # seconds, of a job with all its sizes in one repetition, whatever its kind; a job that
                                # needs longer has failed, with all its sizes (default: 120)
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from .topology import Network, TopologyError, check_loss, check_rate, check_run_name
from .topology_file import KEYS as NETWORK_KEYS
from .topology_file import NetworkReader, read_network
from .yaml_nodes import read_text

KEYS = (
    "name",
    "title",
    "networks",
    "run_on",
    "jobs",
    "sizes",
    "iterations",
    "warmup",
    "repetitions",
    "record",
    "time_limit",
)
EXTRA_KEYS = ("rates", "losses", "run_on", "slots")
LINK_CLASSES = ("host", "switch")
SWITCH_KINDS = ("embedded", "bmv2")
RECORDS = ("startup", "counters", "pcap")
STARTUP = "start-up"
KINDS = ("inca", "openmpi", "gloo")
JOB_KEYS = {
    "inca": ("kind", "name", "iterations", "warmup", "type", "format", "chunk_words"),
    "openmpi": ("kind", "name", "iterations", "warmup", "algorithm"),
    "gloo": ("kind", "name", "iterations", "warmup"),
}
# The number formats that carry a type's sums; the first is its own.
FLOAT_FORMATS = ("bfp16", "bfp8", "bfp32", "exact")
FORMATS = {
    "f32": FLOAT_FORMATS,
    "f16": FLOAT_FORMATS,
    "bf16": FLOAT_FORMATS,
    "i32": ("i32", "i64"),
    "i16": ("i16", "i32", "i64"),
    "i8": ("i8", "i16", "i32", "i64"),
}
TYPES = tuple(FORMATS)
# Open MPI's coll_tuned_allreduce_algorithm.
ALGORITHMS = {
    "linear": 1,
    "nonoverlapping": 2,
    "recursive-doubling": 3,
    "ring": 4,
    "segmented-ring": 5,
    "rabenseifner": 6,
}
UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


@dataclass(frozen=True)
class Size:
    """Bytes of the tensor on each rank, and how often."""

    bytes: int
    iterations: int
    warmup: int


@dataclass(frozen=True)
class Job:
    """Who does the allreduce, and how."""

    name: str
    kind: str
    type: str = "f32"
    # Of inca: the number format, empty for the type's own; words of a chunk.
    format: str = ""
    chunk_words: int = 5
    # Of Open MPI.
    algorithm: str = ""
    # Instead of the sizes' own.
    iterations: int | None = None
    warmup: int | None = None

    def sizes(self, sizes: Sequence[Size]) -> list[Size]:
        """The sizes as this job runs them."""
        return [
            Size(
                size.bytes,
                size.iterations if self.iterations is None else self.iterations,
                size.warmup if self.warmup is None else self.warmup,
            )
            for size in sizes
        ]


@dataclass(frozen=True)
class Place:
    """A network and the switches to run it on."""

    network: Network
    switches: tuple[str, ...]
    slots: int = 16


@dataclass(frozen=True)
class Cell:
    """What runs at once and is repeated as a whole when a run is resumed."""

    network: str
    switch: str
    job: str
    repetition: int

    @property
    def key(self) -> str:
        """Its name in the results."""
        return f"{self.network}/{self.switch}/{self.job}/{self.repetition}"

    @property
    def label(self) -> str:
        """Its name as part of a file's."""
        return file_name(self.key)


@dataclass(frozen=True)
class Experiment:
    """All there is to run."""

    name: str
    title: str
    places: tuple[Place, ...]
    jobs: tuple[Job, ...]
    sizes: tuple[Size, ...]
    repetitions: int
    record: tuple[str, ...]
    time_limit: float
    text: str

    def cells(self) -> list[Cell]:
        """In the order of running: a network is built once; on it all jobs take turns, repetition after repetition, so
        that a noisy minute hits all alike."""
        cells = []
        for place in self.places:
            for switch in place.switches:
                if STARTUP in self.measured_apart:
                    cells.append(Cell(place.network.name, switch, STARTUP, 1))
                cells += [
                    Cell(place.network.name, switch, job.name, repetition)
                    for repetition in range(1, self.repetitions + 1)
                    for job in self.jobs
                ]
        return cells

    @property
    def measured_apart(self) -> tuple[str, ...]:
        """What is measured once for each network and switch, beside the jobs."""
        return (STARTUP,) if "startup" in self.record else ()

    def job(self, name: str) -> Job:
        """A job by its name."""
        return next(job for job in self.jobs if job.name == name)

    def network(self, name: str) -> Network:
        """A network by its name."""
        return next(place.network for place in self.places if place.network.name == name)


def file_name(text: str) -> str:
    """Text as part of a file's name and of a job's at the controller."""
    return re.sub(r"[^A-Za-z0-9.-]", "-", text)


def read_experiment(path: Path) -> Experiment:
    """The experiment that a file describes; paths in it are relative to it."""
    return parse_experiment(read_text(path), str(path), path.stem, path.parent)


def parse_experiment(text: str, source: str, default_name: str, folder: Path = Path()) -> Experiment:
    """The experiment that YAML text describes; `source` stands in front of every message."""
    return _Reader(source, folder).experiment(text, default_name)


def parse_size(text: str) -> int:
    """`8`, `64K`, `4M`: bytes, whole elements of four."""
    found = re.fullmatch(r"(\d{1,12})([KMG]?)", text.strip())
    size = int(found[1]) * UNITS[found[2]] if found else 0
    if size < 4 or size % 4 or size > 1 << 30:
        raise TopologyError(f"size '{text}': 4 to 1G, a multiple of 4, is valid, such as 8, 64K or 4M")
    return size


class _Reader(NetworkReader):
    def __init__(self, source: str, folder: Path) -> None:
        super().__init__(source)
        self.folder = folder

    def experiment(self, text: str, default_name: str) -> Experiment:
        root = self.root(text, "an experiment", KEYS)
        top = self.mapping(root, "experiment", KEYS)
        for key in ("networks", "jobs", "sizes"):
            if key not in top:
                self.fail(root, f"'{key}' is missing")
        name = self.run_name(top.get("name", root), None if "name" in top else default_name)
        run_on = self.switches(top["run_on"]) if "run_on" in top else ("embedded",)
        defaults = (self.count(top, "iterations", 10), self.count(top, "warmup", 1, 0))
        places = [self.place(node, index, run_on) for index, node in enumerate(self.list(top["networks"], "networks"))]
        jobs = [self.job(node) for node in self.list(top["jobs"], "jobs")]
        self.unique(top["networks"], "network", [place.network.name for place in places])
        self.unique(top["jobs"], "job", [job.name for job in jobs])
        self.distinct_files(top["jobs"], [job.name for job in jobs])
        if any(job.name == STARTUP for job in jobs):
            self.fail(top["jobs"], f"job '{STARTUP}': the name stands for the time until the first sum")
        return Experiment(
            name=name,
            title=self.text(top["title"]) if "title" in top else name,
            places=tuple(places),
            jobs=tuple(jobs),
            sizes=self.sizes(top["sizes"], *defaults),
            repetitions=self.count(top, "repetitions", 1),
            record=self.choices(top["record"], "record", RECORDS) if "record" in top else (),
            time_limit=float(self.count(top, "time_limit", 120)),
            text=text,
        )

    def place(self, node: yaml.Node, index: int, run_on: tuple[str, ...]) -> Place:
        parts = self.mapping(node, "network", ("file", *NETWORK_KEYS, *EXTRA_KEYS))
        if "file" in parts:
            for key in parts:
                if key not in ("file", "name", *EXTRA_KEYS):
                    self.fail(parts[key], f"'{key}' together with 'file': set it in the file")
            network = read_network(self.folder / self.text(parts["file"]))
            if "name" in parts:
                network = dataclasses.replace(network, name=self.run_name(parts["name"]))
        else:
            network = self.network(node, f"network{index + 1}", (*NETWORK_KEYS, *EXTRA_KEYS))
        if "rates" in parts:
            network = with_rates(network, self.classes(parts["rates"], "rates", check_rate))
        if "losses" in parts:
            network = with_losses(network, self.classes(parts["losses"], "losses", check_loss))
        if len(network.hosts) < 2:
            self.fail(node, f"network '{network.name}' has 1 host, an allreduce needs at least 2")
        switches = self.switches(parts["run_on"]) if "run_on" in parts else run_on
        return Place(network, switches, self.count(parts, "slots", 16, 1, 4096))

    def classes(self, node: yaml.Node, what: str, check: object) -> dict[str, float]:
        values = {}
        for key, value in self.mapping(node, what, LINK_CLASSES).items():
            values[key] = self.number(value)
            try:
                check(f"{what}: {key}", values[key])  # type: ignore[operator]
            except TopologyError as error:
                self.fail(value, str(error))
        return values

    def job(self, node: yaml.Node) -> Job:
        parts = self.mapping(node, "job", None)
        if "kind" not in parts:
            self.fail(node, f"job: 'kind' is missing, valid are {', '.join(KINDS)}")
        kind = self.one_of(parts["kind"], "kind", KINDS)
        self.mapping(node, "job", JOB_KEYS[kind])
        if kind == "gloo":
            job = Job("gloo", kind)
        elif kind == "openmpi":
            if "algorithm" not in parts:
                self.fail(node, f"job: 'algorithm' is missing, valid are {', '.join(ALGORITHMS)}")
            algorithm = self.one_of(parts["algorithm"], "algorithm", tuple(ALGORITHMS))
            job = Job(f"openmpi-{algorithm}", kind, algorithm=algorithm)
        else:
            dtype = self.one_of(parts["type"], "type", TYPES) if "type" in parts else "f32"
            number_format = (
                self.one_of(parts["format"], f"format of {dtype}", FORMATS[dtype]) if "format" in parts else ""
            )
            words = self.count(parts, "chunk_words", 5, 1, 32)
            job = Job(f"inca-{number_format or dtype}", kind, dtype, number_format, words)
        job = dataclasses.replace(
            job,
            iterations=self.count(parts, "iterations", 1) if "iterations" in parts else None,
            warmup=self.count(parts, "warmup", 1, 0) if "warmup" in parts else None,
        )
        if "name" in parts:
            name = self.text(parts["name"])
            if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9 ._+-]{0,39}", name):
                self.fail(
                    parts["name"], f"name {name!r}: 1 to 40 letters, digits, spaces, '.', '_', '+' or '-' are valid"
                )
            job = dataclasses.replace(job, name=name)
        return job

    def sizes(self, node: yaml.Node, iterations: int, warmup: int) -> tuple[Size, ...]:
        sizes: list[Size] = []
        for item in self.list(node, "sizes"):
            size = self.size(item, iterations, warmup)
            if any(size.bytes == before.bytes for before in sizes):
                self.fail(item, f"size of {size.bytes} bytes twice, rows and tables could not tell them apart")
            sizes.append(size)
        return tuple(sizes)

    def size(self, node: yaml.Node, iterations: int, warmup: int) -> Size:
        parts: dict[str, yaml.Node] = {}
        value = node
        if isinstance(node, yaml.MappingNode):
            parts = self.mapping(node, "size", ("bytes", "iterations", "warmup"))
            if "bytes" not in parts:
                self.fail(node, "size: 'bytes' is missing")
            value = parts["bytes"]
        text = self.text(value)
        try:
            size = parse_size(text)
        except TopologyError as error:
            self.fail(value, str(error))
        return Size(size, self.count(parts, "iterations", iterations), self.count(parts, "warmup", warmup, 0))

    def switches(self, node: yaml.Node) -> tuple[str, ...]:
        self.list(node, "run_on")
        return self.choices(node, "run_on", SWITCH_KINDS)

    def choices(self, node: yaml.Node, what: str, valid: tuple[str, ...]) -> tuple[str, ...]:
        chosen = tuple(self.one_of(item, what, valid) for item in self.sequence(node, what))
        self.unique(node, what, chosen)
        return chosen

    def one_of(self, node: yaml.Node, what: str, valid: tuple[str, ...]) -> str:
        value = self.text(node)
        if value not in valid:
            self.fail(node, f"{what} '{value}': valid are {', '.join(valid)}")
        return value

    def count(self, parts: dict[str, yaml.Node], key: str, default: int, least: int = 1, most: int = 1_000_000) -> int:
        if key not in parts:
            return default
        value = self.integer(parts[key])
        if not least <= value <= most:
            self.fail(parts[key], f"{key} {value}: {least} to {most} is valid")
        return value

    def list(self, node: yaml.Node, what: str) -> list[yaml.Node]:
        items = self.sequence(node, what)
        if not items:
            self.fail(node, f"{what}: empty, at least 1 is needed")
        return items

    def unique(self, node: yaml.Node, what: str, names: Sequence[str]) -> None:
        for index, name in enumerate(names):
            if name in names[:index]:
                self.fail(node, f"{what} '{name}' twice, give them different names")

    def distinct_files(self, node: yaml.Node, names: Sequence[str]) -> None:
        files: dict[str, str] = {}
        for name in names:
            other = files.setdefault(file_name(name), name)
            if other != name:
                self.fail(
                    node,
                    f"jobs '{other}' and '{name}' would both have files named '{file_name(name)}': let names differ in "
                    "letters, digits or '.', not in spaces, '_', '+' and '-' alone",
                )

    def run_name(self, node: yaml.Node, name: str | None = None) -> str:
        """A node's text, or another, as a name of files."""
        found = self.text(node) if name is None else name
        try:
            check_run_name(found)
        except TopologyError as error:
            self.fail(node, str(error))
        return found


def with_rates(network: Network, rates: dict[str, float]) -> Network:
    """Mbit/s of the links of each class."""
    links = tuple(dataclasses.replace(link, rate_mbit=rates.get("switch", link.rate_mbit)) for link in network.links)
    return dataclasses.replace(network, links=links, rate_mbit=rates.get("host", network.rate_mbit))


def with_losses(network: Network, losses: dict[str, float]) -> Network:
    """Loss of the links of each class."""
    links = tuple(dataclasses.replace(link, loss=losses.get("switch", link.loss)) for link in network.links)
    return dataclasses.replace(network, links=links, loss=losses.get("host", network.loss))
