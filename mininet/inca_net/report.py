"""Tables and plots of an experiment's rows."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import machine
from .experiment_file import STARTUP
from .results import MACHINE, REPORT, Results

Row = dict[str, Any]


@dataclass(frozen=True)
class Figure:
    """One job at one size in one place: the median over repetitions of the mean of a repetition's operations."""

    network: str
    switch: str
    job: str
    bytes: int
    seconds: float
    lowest: float
    highest: float
    rows: tuple[Row, ...]

    @property
    def first(self) -> Row:
        """For what all repetitions have in common."""
        return self.rows[0]


def figures(rows: Iterable[Row]) -> list[Figure]:
    """One for each network, switch, job and size, in the order of the rows."""
    groups: dict[tuple[str, str, str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["network"], row["switch"], row["job"], row["bytes"]), []).append(row)
    found = []
    for (network, switch, job, size), members in groups.items():
        # Some ranks of some algorithms run ahead of others: single operations of a rank say little, their mean does.
        times = [row.get("mean_seconds", row["seconds"]) for row in members]
        found.append(
            Figure(network, switch, job, size, statistics.median(times), min(times), max(times), tuple(members))
        )
    return found


def write_report(results: Results) -> None:
    """`report.md` and plots in the results' folder."""
    sums = figures(row for row in results.rows if row["job"] != STARTUP)
    lines = [f"# {results.experiment.title}", ""]
    path = results.folder / MACHINE
    if path.exists():
        lines += [machine.line(json.loads(path.read_text())), ""]
    lines += tables(sums)
    starts = [row for row in results.rows if row["job"] == STARTUP]
    lines += startup_table(starts)
    for name in plots(results.folder, sums):
        lines += [f"![{name}]({name})", ""]
    lines += reasons("Failed:", results.failed) + reasons("Skipped:", results.skipped)
    (results.folder / REPORT).write_text("\n".join(lines))


def reasons(title: str, cells: dict[str, str]) -> list[str]:
    """Markdown: cells and why they have no rows, or nothing; what a program printed stays as it was."""
    if not cells:
        return []
    lines = [title, ""]
    for key, reason in cells.items():
        first, *more = reason.splitlines() or [""]
        lines.append(f"* {key}: {first}")
        if more:
            lines += ["", *(f"      {line}" for line in more), ""]
    return [*lines, ""]


def tables(sums: Sequence[Figure]) -> list[str]:
    """Markdown: one table for each network and switch, a line for each job, a column for each size."""
    lines: list[str] = []
    for network, switch in places(sums):
        here = [figure for figure in sums if (figure.network, figure.switch) == (network, switch)]
        sizes = sorted({figure.bytes for figure in here})
        one = here[0].first
        lines += [
            f"## {network} on {switch}",
            "",
            f"{one['ranks']} ranks; hosts' links {rate_text(one['host_mbit'])}, between switches "
            f"{rate_text(one['switch_mbit'])}. Milliseconds: median over repetitions of the slowest rank's mean "
            "(lowest to highest repetition); in brackets the time beside the links' bound.",
            "",
            "| job | " + " | ".join(size_text(size) for size in sizes) + " |",
            "|---" * (len(sizes) + 1) + "|",
        ]
        for job in dict.fromkeys(figure.job for figure in here):
            cells = {figure.bytes: cell_text(figure) for figure in here if figure.job == job}
            lines.append(f"| {job} | " + " | ".join(cells.get(size, "-") for size in sizes) + " |")
        bounds = {figure.bytes: figure.first["ring_bound_seconds"] for figure in here}
        if any(bounds.values()):
            texts = [f"{(bounds[size] or 0) * 1e3:.3f}" for size in sizes]
            lines.append("| *least of a ring* | " + " | ".join(texts) + " |")
        lines.append("")
    return lines


def places(sums: Sequence[Figure]) -> list[tuple[str, str]]:
    """Networks and switches, in order."""
    return list(dict.fromkeys((figure.network, figure.switch) for figure in sums))


def startup_table(rows: Sequence[Row]) -> list[str]:
    """Markdown, or nothing."""
    if not rows:
        return []
    lines = [
        "## Start-up",
        "",
        "Seconds from starting the controller to its knowing all switches, links and hosts, and from starting the "
        "ranks to the end of all after their first sum.",
        "",
        "| network | switch | switches | ranks | discovery | first sum | both |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        lines.append(
            f"| {row['network']} | {row['switch']} | {row['switches']} | {row['ranks']} | "
            f"{row['discovery_seconds']:.2f} | {row['first_sum_seconds']:.2f} | {row['seconds']:.2f} |"
        )
    return [*lines, ""]


def cell_text(figure: Figure) -> str:
    """`71.250 (70.1 to 73.4) [1.04]`."""
    text = f"{figure.seconds * 1e3:.3f}"
    if len(figure.rows) > 1:
        text += f" ({figure.lowest * 1e3:.3f} to {figure.highest * 1e3:.3f})"
    bound = figure.first.get("bound_seconds")
    return text + (f" [{figure.seconds / bound:.2f}]" if bound else "")


def rate_text(rate: float | None) -> str:
    """`50 Mbit/s`."""
    return "unlimited" if rate is None else f"{rate:g} Mbit/s"


def size_text(size: int) -> str:
    """`4 MiB`."""
    for unit, name in ((1 << 20, "MiB"), (1 << 10, "KiB")):
        if size >= unit and size % unit == 0:
            return f"{size // unit} {name}"
    return f"{size} B"


def plots(folder: Path, sums: Sequence[Figure]) -> list[str]:
    """Draws what the rows can show: time over size where there are several sizes, over ranks where networks differ."""
    names = []
    for network, switch in places(sums):
        here = [figure for figure in sums if (figure.network, figure.switch) == (network, switch)]
        if len({figure.bytes for figure in here}) >= 3:
            names.append(f"sizes-{network}-{switch}.png")
            plot_sizes(folder / names[-1], here, f"{network} on {switch}")
    for switch in dict.fromkeys(figure.switch for figure in sums):
        for size in sorted({figure.bytes for figure in sums}):
            here = [figure for figure in sums if figure.switch == switch and figure.bytes == size]
            if len({figure.first["ranks"] for figure in here}) >= 3:
                names.append(f"ranks-{size}-{switch}.png")
                plot_ranks(folder / names[-1], here, f"{size_text(size)} on {switch}")
    return names


def plot_sizes(path: Path, here: Sequence[Figure], title: str) -> None:
    """Time over size, a line for each job, and what the links allow."""
    pyplot = matplotlib_pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 5.2))
    for index, job in enumerate(dict.fromkeys(each.job for each in here)):
        points = sorted((each for each in here if each.job == job), key=lambda each: each.bytes)
        colour = f"C{index}"
        axes.plot([p.bytes for p in points], [p.seconds * 1e3 for p in points], "o-", ms=4, label=job, color=colour)
        bounds = [(p.bytes, p.first.get("bound_seconds")) for p in points]
        drawn = [(size, bound * 1e3) for size, bound in bounds if bound]
        if drawn:
            axes.plot(*zip(*drawn, strict=True), "--", color=colour, linewidth=0.8)
    rings = sorted({(p.bytes, p.first["ring_bound_seconds"] * 1e3) for p in here if p.first["ring_bound_seconds"]})
    if rings:
        axes.plot(*zip(*rings, strict=True), "k:", linewidth=1, label="least of a ring (tree: dashed)")
    axes.set(xscale="log", yscale="log", xlabel="bytes", ylabel="milliseconds", title=title)
    finish(pyplot, figure, axes, path)


def plot_ranks(path: Path, here: Sequence[Figure], title: str) -> None:
    """Time over ranks, a line for each job."""
    pyplot = matplotlib_pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 5.2))
    for job in dict.fromkeys(each.job for each in here):
        points = sorted((each for each in here if each.job == job), key=lambda each: int(each.first["ranks"]))
        axes.plot([p.first["ranks"] for p in points], [p.seconds * 1e3 for p in points], "o-", ms=4, label=job)
    axes.set(xscale="log", xlabel="ranks", ylabel="milliseconds", title=title)
    ranks = sorted({each.first["ranks"] for each in here})
    axes.set_xticks(ranks, [str(count) for count in ranks])
    axes.minorticks_off()
    axes.set_ylim(bottom=0)
    finish(pyplot, figure, axes, path)


def finish(pyplot: Any, figure: Any, axes: Any, path: Path) -> None:
    """What all plots have."""
    axes.grid(True, which="major", alpha=0.3)
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def matplotlib_pyplot() -> Any:
    """Imported where something is drawn."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot
