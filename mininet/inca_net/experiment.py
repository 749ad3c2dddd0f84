"""Runs an experiment: builds each of its networks on each switch, runs each job there, keeps what it measured.

An interrupted run goes on with --resume at the cell that it was in.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from . import machine, peers
from .bounds import Bound, ring_bound, tree_bound
from .emulation import Emulation, Settings
from .experiment_file import STARTUP, Cell, Experiment, Job, Place, Size
from .jobs import run_perf
from .nodes import MissingProgramError
from .pcap import Capture
from .processes import ComponentError, JobError
from .report import write_report
from .results import MACHINE, Results
from .sampling import Sampler

Progress = Callable[[str], None]


def run(experiment: Experiment, results: Results, progress: Progress) -> int:
    """Runs all cells that are not finished, then writes tables and plots; 1 if a job failed or an element was wrong."""
    if not (results.folder / MACHINE).exists():
        (results.folder / MACHINE).write_text(json.dumps(machine.describe(), indent=1) + "\n")
    cells = experiment.cells()
    todo = [cell for cell in cells if not results.is_done(cell.key)]
    progress(f"{experiment.name}: {len(todo)} of {len(cells)} cells to run; results in {results.folder}")
    done = len(cells) - len(todo)
    for (network, switch), group in groupby(todo, lambda cell: (cell.network, cell.switch)):
        place = next(place for place in experiment.places if place.network.name == network)
        done = run_place(experiment, place, switch, list(group), results, progress, (done, len(cells)))
    results.write_rows()
    write_report(results)
    failed = results.failed
    wrong = sum(row["wrong"] for row in results.rows)
    for key, reason in results.skipped.items():
        progress(f"skipped {key}: {reason}")
    for key, reason in failed.items():
        progress(f"failed {key}: {(reason.splitlines() or [''])[0]}")
    progress(f"{len(results.rows)} rows, #wrong {wrong}: {results.folder}")
    return 1 if failed or wrong else 0


def run_place(
    experiment: Experiment,
    place: Place,
    switch: str,
    cells: list[Cell],
    results: Results,
    progress: Progress,
    count: tuple[int, int],
) -> int:
    """Runs cells of one network on one switch; returns how many are done."""
    done, total = count
    able: list[Cell] = []
    ended: list[Cell] = []
    for cell in cells:
        reason = why_skipped(experiment, cell)
        if reason:
            results.append({"cell": cell.key, "skipped": reason})
            done += 1
        else:
            able.append(cell)
    if not able:
        return done
    settings = Settings(
        switch=switch,
        run_dir=free_folder(results.folder, f"{place.network.name}-{switch}"),
        inventory={"trees": {"slots_per_tree": place.slots}},
    )
    try:
        with Emulation(place.network, settings) as emulation:
            for cell in able:
                progress(f"[{done + 1}/{total}] {cell.key}")
                results.append(run_cell(experiment, emulation, cell))
                ended.append(cell)
                report_cell(results.cells[-1], progress)
                done += 1
    except ComponentError as error:
        # The network is gone: what is left of it fails, other networks go on.
        message = str(error)
        progress(f"failed: {message}")
        for cell in able:
            if cell not in ended:
                results.append({"cell": cell.key, "failed": message})
                done += 1
    return done


def why_skipped(experiment: Experiment, cell: Cell) -> str:
    """Why a cell can't run on this machine, or nothing."""
    try:
        Settings(switch=cell.switch).check()
    except MissingProgramError as error:
        return str(error)
    return "" if cell.job == STARTUP else peers.missing(experiment.job(cell.job).kind)


def run_cell(experiment: Experiment, emulation: Emulation, cell: Cell) -> dict[str, Any]:
    """What one cell measures; a job that fails is a result too."""
    started = time.monotonic()
    found: dict[str, Any] = {"cell": cell.key, "load": os.getloadavg()[0], "time": time.time()}
    try:
        with Capture(emulation, cell.label, "pcap" in experiment.record):
            if cell.job == STARTUP:
                found["rows"] = [startup_row(emulation, cell)]
            else:
                job = experiment.job(cell.job)
                found["rows"] = measure(emulation, cell, job, job.sizes(experiment.sizes), experiment.time_limit)
        if "counters" in experiment.record:
            found["counters"] = emulation.status(counters=True)
    except JobError as error:
        found["failed"] = str(error)
    found["seconds"] = time.monotonic() - started
    for row in found.get("rows", []):
        row |= {"experiment": experiment.name, "load": found["load"], "time": found["time"]}
    return found


def measure(
    emulation: Emulation, cell: Cell, job: Job, sizes: Sequence[Size], time_limit: float
) -> list[dict[str, Any]]:
    """A row for each size; all of them have to be done within the time limit."""
    if job.kind == "inca":
        end = time.monotonic() + time_limit
        return [measure_inca(emulation, cell, job, size, time_left(end, time_limit, size)) for size in sizes]
    with Sampler(host_ports(emulation)) as sampler:
        if job.kind == "openmpi":
            report = peers.run_openmpi(emulation, cell.label, job, sizes, time_limit)
        else:
            report = peers.run_gloo(emulation, cell.label, sizes, time_limit)
    return [
        {
            **common(emulation, cell, job, size),
            "format": "f32",
            "seconds": row["median"],
            "mean_seconds": row["mean"],
            "fastest_seconds": row["fastest"],
            "wrong": row["wrong"],
            "cpu": sampler.cpu,
        }
        for size, row in zip(sizes, report["rows"], strict=True)
    ]


def time_left(end: float, time_limit: float, size: Size) -> float:
    """Seconds until then; raises JobError if there are none."""
    left = end - time.monotonic()
    if left <= 0:
        raise JobError(f"over its time_limit of {time_limit:g} s before the size of {size.bytes} bytes")
    return left


def measure_inca(emulation: Emulation, cell: Cell, job: Job, size: Size, time_limit: float) -> dict[str, Any]:
    """One size, by inca-agent perf on every host."""
    options = ["-b", str(size.bytes), "-e", str(size.bytes), "-n", str(size.iterations), "-w", str(size.warmup)]
    options += ["--dtype", job.type, "--chunk-words", str(job.chunk_words), "--deadline", str(time_limit)]
    if job.format:
        options += ["--format", job.format]
    with Sampler(host_ports(emulation)) as sampler:
        reports = run_perf(emulation, f"{cell.label}-{size.bytes}", options, time_limit)
    rows = [report["rows"][0] for report in reports]
    bound = tree_bound(emulation.network, size.bytes, job.type, rows[0]["format"], job.chunk_words)
    seconds = slowest(rows, "median_us")
    return {
        **common(emulation, cell, job, size),
        "format": rows[0]["format"],
        "seconds": seconds,
        "mean_seconds": slowest(rows, "time_us"),
        "fastest_seconds": slowest(rows, "fastest_us"),
        "wrong": sum(row["wrong"] for row in rows),
        "resent": sum(row["retransmissions"] for row in rows),
        "fallback": reports[0]["fallback"],
        "cpu": sampler.cpu,
        **bound_fields("bound", bound),
        "of_bound": seconds / bound.seconds if bound else None,
    }


def slowest(rows: Sequence[dict[str, Any]], key: str) -> float:
    """Seconds of the slowest rank: the group is as fast as it."""
    return float(max(row[key] for row in rows)) / 1e6


def common(emulation: Emulation, cell: Cell, job: Job, size: Size) -> dict[str, Any]:
    """What every row says."""
    network = emulation.network
    ring = ring_bound(network, size.bytes)
    return {
        "network": cell.network,
        "switch": cell.switch,
        "job": cell.job,
        "kind": job.kind,
        "type": job.type,
        "ranks": len(network.hosts),
        "host_mbit": network.rate_mbit,
        "switch_mbit": network.links[0].rate_mbit if network.links else None,
        "bytes": size.bytes,
        "iterations": size.iterations,
        "warmup": size.warmup,
        "repetition": cell.repetition,
        **bound_fields("ring_bound", ring),
    }


def bound_fields(name: str, bound: Bound | None) -> dict[str, Any]:
    """A bound as fields of a row."""
    return {f"{name}_seconds": bound.seconds if bound else None, f"{name}_link": bound.link if bound else None}


def startup_row(emulation: Emulation, cell: Cell) -> dict[str, Any]:
    """Time from starting the controller to knowing the network, and from then to every rank's first sum."""
    started = time.monotonic()
    options = ["-b", "8", "-e", "8", "-n", "1", "-w", "0"]
    reports = run_perf(emulation, cell.label, options)
    first = time.monotonic() - started
    return {
        "network": cell.network,
        "switch": cell.switch,
        "job": cell.job,
        "kind": "inca",
        "ranks": len(emulation.network.hosts),
        "switches": len(emulation.network.switches),
        "bytes": 8,
        "repetition": 1,
        "discovery_seconds": emulation.discovery_seconds,
        "first_sum_seconds": first,
        "seconds": emulation.discovery_seconds + first,
        "wrong": sum(row["wrong"] for report in reports for row in report["rows"]),
    }


def host_ports(emulation: Emulation) -> list[str]:
    """The switches' interfaces to hosts."""
    return [f"{host.switch}-eth{host.port}" for host in emulation.network.hosts]


def report_cell(cell: dict[str, Any], progress: Progress) -> None:
    """A line for each row."""
    if "failed" in cell:
        progress(f"    failed: {cell['failed']}")
    for row in cell.get("rows", []):
        bound = f", {row['of_bound']:.3f} of the links' bound" if row.get("of_bound") else ""
        cpu = f", CPU {row['cpu']:.0%}" if row.get("cpu") is not None else ""
        progress(f"    {row['bytes']:>10} bytes {row['seconds'] * 1e3:>12.3f} ms{bound}{cpu}, #wrong {row['wrong']}")


def free_folder(folder: Path, name: str) -> Path:
    """A folder that no earlier part of the run has used, so that its logs stay."""
    number = 1
    while True:
        path = folder / (name if number == 1 else f"{name}-{number}")
        if not path.exists():
            return path
        number += 1


def to_stdout(line: str) -> None:
    """Progress for people."""
    print(line, flush=True)


def to_stderr(line: str) -> None:
    """Progress beside JSON."""
    print(line, file=sys.stderr, flush=True)
