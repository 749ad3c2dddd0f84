"""What the project promises, as checks of measured rows. Pure: rows and reports in, checks out."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from .report import Figure, figures

Row = dict[str, Any]

# 4 MiB of f32: times the best of the others.
SPEEDUPS = {"inca-i32": 1.5, "inca-bfp16": 3.0, "inca-bfp8": 5.0}
GOAL_BYTES, LATENCY_BYTES, SCALING_BYTES = 4 << 20, 8, 1 << 20
OF_BOUND = 1.10
LATENCY = 0.7
GROWTH = 1.10
CPU = 0.60
EMBEDDED, EMBEDDED_ONE_CORE = 10.0, 5.0
# Of resident memory, over the soak's second half.
SOAK_GROWTH = 0.02
# What a soak must have been to count.
SOAK_SECONDS, SOAK_LOSS, SOAK_RANKS = 600, 0.01, 8
SWITCHES = ("embedded", "bmv2")


@dataclass(frozen=True)
class Check:
    """One promise: `value` is None where it was not measured, and then it does not hold."""

    name: str
    value: float | None
    target: str
    holds: bool
    note: str = ""

    def json(self) -> dict[str, Any]:
        """As the report has it."""
        return asdict(self)


def at_least(name: str, value: float | None, target: float, note: str = "") -> Check:
    """Holds from the target on."""
    return Check(name, value, f">= {target:g}", value is not None and value >= target, note or missing(value))


def at_most(name: str, value: float | None, target: float, note: str = "") -> Check:
    """Holds up to the target."""
    return Check(name, value, f"<= {target:g}", value is not None and value <= target, note or missing(value))


def missing(value: float | None) -> str:
    """Why a check without a value does not hold."""
    return "not measured" if value is None else ""


def all_checks(rows: dict[str, list[Row]], reports: dict[str, Any]) -> list[Check]:
    """Every promise, from the rows of each experiment and the reports of the other measurements."""
    checks = dataplane_checks(reports.get("dataplane"))
    # The quick run has one experiment for all.
    latency = figures(rows.get("latency") or rows.get("quick") or [])
    for switch in SWITCHES:
        checks += goal_checks(figures(rows.get(f"goal-{switch}") or rows.get("quick") or []), switch)
        checks.append(latency_check(latency, switch))
    checks += scaling_checks(rows.get("scaling", []))
    checks += soak_checks(reports.get("soak"))
    wrong = sum(row["wrong"] for each in rows.values() for row in each)
    checks.append(at_most("wrong elements in all rows", float(wrong) if any(rows.values()) else None, 0))
    return checks


def of(sums: Sequence[Figure], switch: str, size: int) -> tuple[dict[str, Figure], Figure | None]:
    """Ours at a size on a switch by job, and the fastest of the others."""
    here = [figure for figure in sums if figure.switch == switch and figure.bytes == size]
    ours = {figure.job: figure for figure in here if figure.first["kind"] == "inca"}
    others = [figure for figure in here if figure.first["kind"] != "inca"]
    return ours, min(others, key=lambda figure: figure.seconds) if others else None


def goal_checks(sums: Sequence[Figure], switch: str) -> list[Check]:
    """4 MiB: against the best of the others, and against what the links allow."""
    ours, best = of(sums, switch, GOAL_BYTES)
    checks = []
    for job, target in SPEEDUPS.items():
        figure = ours.get(job)
        value = best.seconds / figure.seconds if figure and best else None
        note = f"{figure.seconds * 1e3:.1f} ms, {best.job} {best.seconds * 1e3:.1f} ms" if figure and best else ""
        checks.append(
            at_least(f"4 MiB on {switch}: {job} times as fast as the best of the others", value, target, note)
        )
    for job in SPEEDUPS:
        figure = ours.get(job)
        bound = figure.first["bound_seconds"] if figure else None
        value = figure.seconds / bound if figure and bound else None
        note = f"{figure.first['bound_link']}: {bound * 1e3:.1f} ms" if figure and bound else ""
        checks.append(at_most(f"4 MiB on {switch}: {job}, of the busiest link's time", value, OF_BOUND, note))
    return checks


def latency_check(sums: Sequence[Figure], switch: str) -> Check:
    """8 bytes: of the best of the others."""
    ours, best = of(sums, switch, LATENCY_BYTES)
    figure = ours.get("inca-bfp16")
    value = figure.seconds / best.seconds if figure and best else None
    note = f"{figure.seconds * 1e6:.0f} us, {best.job} {best.seconds * 1e6:.0f} us" if figure and best else ""
    return at_most(f"8 bytes on {switch}: of the best of the others", value, LATENCY, note)


def scaling_checks(rows: Iterable[Row]) -> list[Check]:
    """1 MiB from 2 to 16 workers, two levels: growth, and the cores' share."""
    sums = [
        figure
        for figure in figures(rows)
        if figure.network.startswith("workers-") and figure.bytes == SCALING_BYTES and figure.first["ranks"] <= 16
    ]
    times: dict[str, dict[int, Figure]] = {}
    for figure in sums:
        times.setdefault(figure.first["kind"], {})[figure.first["ranks"]] = figure
    ours, ring = times.get("inca", {}), times.get("openmpi", {})
    growth = ours[16].seconds / ours[2].seconds if {2, 16} <= set(ours) else None
    beside = f"Open MPI's ring: {ring[16].seconds / ring[2].seconds:.2f}" if {2, 16} <= set(ring) else ""
    shares = [row["cpu"] for figure in ours.values() for row in figure.rows if row.get("cpu") is not None]
    return [
        at_most("1 MiB: time at 16 workers of that at 2", growth, GROWTH, beside if growth else ""),
        at_most("1 MiB: highest share of the cores meanwhile", max(shares) if shares else None, CPU),
    ]


def dataplane_checks(report: dict[str, Any] | None) -> list[Check]:
    """The embedded switch beside BMv2."""
    found = report or {}

    def least(name: str) -> float | None:
        ratio: float | None = found.get(name, {}).get("least")
        return ratio

    def beside(name: str, threads: str = "") -> str:
        best, more = least(name), least(threads)
        note = "" if best is None else f"least of the roles; BMv2 at its best load: {best:.1f}"
        return note if more is None else f"{note}, and {more:.1f} with two packet threads"

    return [
        at_least(
            "packets a second at 1280 bytes: embedded switch, times BMv2",
            least("embedded_to_bmv2"),
            EMBEDDED,
            beside("embedded_to_bmv2_best", "embedded_two_threads_to_bmv2_best"),
        ),
        at_least(
            "the same with one core each",
            least("embedded_to_bmv2_one_core"),
            EMBEDDED_ONE_CORE,
            beside("embedded_to_bmv2_one_core_best"),
        ),
    ]


def soak_checks(report: dict[str, Any] | None) -> list[Check]:
    """The latest soak, which is a command of its own; one that was too short, too small or without loss says nothing of
    growth and wrong elements."""
    found = report or {}
    note = "run: make soak"
    counts = False
    if report is not None:
        note = f"{report['seconds']:.0f} s at {report['loss']:.1%} loss, {report['ranks']} ranks"
        counts = report["seconds"] >= SOAK_SECONDS and report["loss"] >= SOAK_LOSS and report["ranks"] >= SOAK_RANKS
        if not counts:
            note += f": does not count, {SOAK_SECONDS} s at {SOAK_LOSS:.0%} with {SOAK_RANKS} ranks do"
    growth, wrong = (found["growth"], found["wrong"]) if counts else (None, None)
    return [
        at_most("soak: growth of resident memory, the largest of all parts", growth, SOAK_GROWTH, note),
        at_most("soak: wrong elements", wrong, 0, note),
        at_least("soak: seconds", found.get("seconds"), SOAK_SECONDS, note),
        at_least("soak: loss on every link", found.get("loss"), SOAK_LOSS, note),
        at_least("soak: ranks", found.get("ranks"), SOAK_RANKS, note),
    ]


def table(checks: Sequence[Check]) -> list[str]:
    """Markdown."""
    lines = ["| what | value | target | holds | |", "|---|---|---|---|---|"]
    for check in checks:
        value = "-" if check.value is None else f"{check.value:.3g}"
        lines.append(
            f"| {check.name} | {value} | {check.target} | {'yes' if check.holds else '**no**'} | {check.note} |"
        )
    return [*lines, ""]
