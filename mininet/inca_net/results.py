"""An experiment's results folder: what was done stays done when a run is interrupted.

experiment.yaml    the experiment as it was read
machine.json       machine, versions and load when it began
cells.jsonl        a line for each cell that is finished, with its rows
rows.json          all rows, once all cells are finished
report.md, *.png   tables and plots
NETWORK-SWITCH/    logs of the emulation, outputs of the jobs, pcaps
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from .experiment_file import Experiment
from .topology import TopologyError

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
            for name in (EXPERIMENT, MACHINE, CELLS, ROWS, REPORT):
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
            self.cells = read_cells(cells)
            return
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / EXPERIMENT).write_text(self.experiment.text)
        cells.touch()

    def is_done(self, key: str) -> bool:
        """Whether a cell is finished; one that failed is tried again by the next run."""
        return any(cell["cell"] == key and "failed" not in cell for cell in self.cells)

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
        return {cell["cell"]: cell["skipped"] for cell in self.cells if "skipped" in cell}

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
