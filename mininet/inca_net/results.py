"""An experiment's results folder: what was done stays done when a run is interrupted.

experiment.yaml    the experiment as it was read
networks.json      its networks in full, those of other files too
machine.json       machine, versions and load when it began
cells.jsonl        a line for each cell that is finished, with its rows, or why it failed or was skipped
rows.json          all rows, once all cells are finished
report.md, *.png   tables and plots
NETWORK-SWITCH/    logs of the emulation, outputs of the jobs, pcaps
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Any

from .experiment_file import Experiment
from .topology import TopologyError

NETWORKS = "networks.json"
EXPERIMENT, MACHINE, CELLS, ROWS, REPORT = "experiment.yaml", "machine.json", "cells.jsonl", "rows.json", "report.md"


class Results:
    """The folder of one experiment."""

    def __init__(self, folder: Path, experiment: Experiment) -> None:
        self.folder = folder
        self.experiment = experiment
        self.cells: list[dict[str, Any]] = []

    def open(self, resume: bool, again: bool = False) -> None:
        """Makes the folder or, to resume, reads what is there.

        Raises TopologyError where that would mix or lose results.
        """
        cells = self.folder / CELLS
        if cells.exists() and again:
            for name in (EXPERIMENT, NETWORKS, MACHINE, CELLS, ROWS, REPORT):
                (self.folder / name).unlink(missing_ok=True)
        if cells.exists():
            if not resume:
                raise TopologyError(
                    f"{self.folder} holds results: --resume goes on with them, --again begins anew, --results chooses "
                    "another folder"
                )
            before = self.folder / EXPERIMENT
            if not before.exists() or before.read_text() != self.experiment.text:
                raise TopologyError(
                    f"{self.folder} holds results of another experiment than this file: --again begins anew"
                )
            self.check_networks()
            self.cells = read_cells(cells)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / EXPERIMENT).write_text(self.experiment.text)
        (self.folder / NETWORKS).write_text(self.networks())
        cells.touch()

    def networks(self) -> str:
        """All networks as they are built, whatever files they come from."""
        return json.dumps([dataclasses.asdict(place) for place in self.experiment.places], indent=1) + "\n"

    def check_networks(self) -> None:
        """Raises TopologyError where a network's file has changed since; results of before the record can't tell."""
        path = self.folder / NETWORKS
        if not path.exists():
            return
        before = {place["network"]["name"]: place for place in json.loads(path.read_text())}
        now = {place["network"]["name"]: place for place in json.loads(self.networks())}
        changed = [name for name in {**before, **now} if before.get(name) != now.get(name)]
        if changed:
            raise TopologyError(
                f"{self.folder} holds results of other networks than the files describe now, different are "
                f"{', '.join(changed)}: --again begins anew"
            )

    def is_done(self, key: str) -> bool:
        """Whether a cell is finished; one that failed or was skipped is tried again by the next run."""
        return any(cell["cell"] == key and "failed" not in cell and "skipped" not in cell for cell in self.cells)

    def append(self, cell: dict[str, Any]) -> None:
        """Adds a finished cell: a whole line, on the disk before the next cell begins."""
        self.cells.append(cell)
        with (self.folder / CELLS).open("a") as file:
            file.write(json.dumps(cell) + "\n")
            file.flush()
            os.fsync(file.fileno())

    @property
    def rows(self) -> list[dict[str, Any]]:
        """All rows so far."""
        return [row for cell in self.cells for row in cell.get("rows", [])]

    @property
    def skipped(self) -> dict[str, str]:
        """Cells that could not run here, and why."""
        return self.unfinished("skipped")

    @property
    def failed(self) -> dict[str, str]:
        """Cells that failed, and why."""
        return self.unfinished("failed")

    def unfinished(self, how: str) -> dict[str, str]:
        """Cells whose last attempt ended so, and why."""
        last = {cell["cell"]: cell for cell in self.cells}
        return {key: cell[how] for key, cell in last.items() if how in cell and not self.is_done(key)}

    def json(self) -> dict[str, Any]:
        """All that was found, for programs."""
        return {
            "experiment": self.experiment.name,
            "results": str(self.folder),
            "rows": self.rows,
            "failed": [{"cell": key, "reason": reason} for key, reason in self.failed.items()],
            "skipped": [{"cell": key, "reason": reason} for key, reason in self.skipped.items()],
        }

    def write_rows(self) -> None:
        """All rows in one file."""
        (self.folder / ROWS).write_text(json.dumps(self.rows, indent=1) + "\n")


def read_cells(path: Path) -> list[dict[str, Any]]:
    """Finished cells. What an interrupted run left of a last line is cut off, so that its cell runs again."""
    data = path.read_bytes()
    whole = data.rfind(b"\n") + 1
    if whole < len(data):
        with path.open("r+b") as file:
            file.truncate(whole)
    cells = []
    for number, line in enumerate(data[:whole].splitlines(), 1):
        try:
            cells.append(json.loads(line))
        except json.JSONDecodeError as error:
            raise TopologyError(f"{path}:{number}: no JSON ({error.msg}); --again begins anew") from None
    return cells
