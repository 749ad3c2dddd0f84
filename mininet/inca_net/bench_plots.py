"""Plots over several of the benchmark's parts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .report import Figure, figures, matplotlib_pyplot, size_text

Row = dict[str, Any]


def draw(folder: Path, reports: dict[str, Any], rows: dict[str, list[Row]]) -> list[tuple[str, str]]:
    """Draws what there is; titles and file names."""
    drawn = []
    for name in ("goal-embedded", "goal-bmv2", "equal", "latency", "quick"):
        sums = figures(row for row in rows.get(name, []) if row["job"] != "start-up")
        for size in sorted({figure.bytes for figure in sums}):
            for switch in dict.fromkeys(figure.switch for figure in sums):
                here = [figure for figure in sums if (figure.bytes, figure.switch) == (size, switch)]
                network = here[0].network if here else ""
                title, file = f"{size_text(size)} on {switch}, {network}", f"bars-{name}-{size}-{switch}.png"
                bars(folder / file, here, title)
                drawn.append((title, file))
    if reports.get("dataplane"):
        dataplane(folder / "dataplane.png", reports["dataplane"]["rows"])
        drawn.append(("Bytes aggregated a second", "dataplane.png"))
    sweep = {
        report["children"]: report["rows"]
        for name, report in reports.items()
        if name.startswith("dataplane") and report
    }
    if len(sweep) > 1:
        children(folder / "dataplane-children.png", sweep)
        drawn.append(("Bytes aggregated a second with 2 to 64 workers", "dataplane-children.png"))
    if reports.get("codec"):
        codec(folder / "codec.png", reports["codec"])
        drawn.append(("Codec beside memcpy", "codec.png"))
    return drawn


def codec(path: Path, rows: Sequence[Row]) -> None:
    """A bar for each format and direction, and memcpy."""
    pyplot = matplotlib_pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 0.9 + 0.36 * len(rows)))
    names = [f"{row['format']} {row['direction']}" for row in rows][::-1]
    axes.barh(names, [row["bytes_per_s"] / 1e9 for row in rows][::-1])
    axes.axvline(rows[0]["memcpy_bytes_per_s"] / 1e9, color="k", linestyle=":", label="memcpy")
    axes.legend(fontsize=8)
    axes.set(xlabel="GB of f32 a second, one core")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def bars(path: Path, here: Sequence[Figure], title: str) -> None:
    """A bar for each job, with the links' bounds."""
    pyplot = matplotlib_pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 0.6 + 0.42 * len(here)))
    names = [each.job for each in here][::-1]
    times = [each.seconds * 1e3 for each in here][::-1]
    colours = ["C0" if each.first["kind"] == "inca" else "C7" for each in here][::-1]
    axes.barh(names, times, color=colours)
    for place, each in enumerate(reversed(here)):
        bound = each.first.get("bound_seconds")
        if bound:
            axes.plot([bound * 1e3] * 2, [place - 0.4, place + 0.4], "k-", linewidth=1.5)
        axes.text(each.seconds * 1e3, place, f" {each.seconds * 1e3:.3g}", va="center", fontsize=8)
    ring = here[0].first.get("ring_bound_seconds") if here else None
    if ring and here[0].bytes > 1500:
        axes.axvline(ring * 1e3, color="k", linestyle=":", linewidth=1, label="least of a ring")
        axes.legend(fontsize=8)
    axes.set(xscale="log", xlabel="milliseconds (black: what the links allow)", title=title)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def dataplane(path: Path, rows: Sequence[Row]) -> None:
    """A bar for each case that all had the machine for."""
    rows = [row for row in rows if not row["one_core"] and row.get("threads", 1) == 1]
    pyplot = matplotlib_pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 0.6 + 0.36 * len(rows)))
    names = [f"{row['program']} {row['role']} {row['switch']} {row['payload']} ({row['slots']})" for row in rows][::-1]
    axes.barh(names, [row["bytes_per_s"] / 1e6 for row in rows][::-1])
    axes.set(xscale="log", xlabel="MB aggregated a second")
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def children(path: Path, sweep: dict[int, list[Row]]) -> None:
    """A line for each program and switch over the number of children of one switch: each at its best load."""
    pyplot = matplotlib_pyplot()
    figure, axes = pyplot.subplots(figsize=(8, 4.5))
    lines: dict[str, dict[int, float]] = {}
    for count, rows in sorted(sweep.items()):
        for row in rows:
            if (
                row["role"] == "single"
                and row["payload"] == 1280
                and not row["one_core"]
                and row.get("threads", 1) == 1
            ):
                line = lines.setdefault(f"{row['program']} on {row['switch']}", {})
                line[count] = max(line.get(count, 0.0), row["bytes_per_s"] / 1e6)
    for name, line in lines.items():
        axes.plot(list(line), list(line.values()), marker="o", label=name)
    axes.set(
        xscale="log", yscale="log", xlabel="workers of one switch", ylabel="MB aggregated a second, 1280 bytes each"
    )
    axes.set_xticks(sorted(sweep), [str(count) for count in sorted(sweep)])
    axes.minorticks_off()
    axes.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)
