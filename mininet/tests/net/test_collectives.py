"""Every collective on emulated trees, on every switch there is, each element checked; and the example in C."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from conftest import Start

from inca_net import topology
from inca_net.jobs import run_perf
from inca_net.nodes import ROOT, find_binary

COLLECTIVES = ("reduce", "broadcast", "allgather", "reduce-scatter", "alltoall", "sendrecv", "barrier")
# One element a rank, a part of a chunk, a chunk and a bit, many.
SWEEP = ["-b", "16", "-e", "64K", "-f", "16", "-n", "2", "-w", "1", "--in-place"]


def test_every_collective_is_right_on_the_wire(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [2, 2]), switch=kind)
    for collective in COLLECTIVES:
        for dtype in ("f32", "i32") if collective in ("reduce", "broadcast") else ("f32",):
            arguments = [*SWEEP, "-c", collective, "-r", "1", "-d", dtype]
            reports = run_perf(emulation, f"{collective}-{dtype}", arguments, 60)
            assert len(reports) == 4
            for report in reports:
                assert report["collective"] == collective
                assert {row["wrong"] for row in report["rows"]} == {0}
                places = {row["in_place"] for row in report["rows"]}
                assert places == {
                    "reduce": {False, True},
                    "allgather": {False, True},
                    "reduce-scatter": {False, True},
                    "broadcast": {True},
                }.get(collective, {False})


def test_collectives_survive_loss(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [2, 1], loss=0.03), switch=kind)
    arguments = ["-b", "4K", "-e", "32K", "-f", "8", "-n", "2", "-w", "1", "--join-timeout", "60"]
    for collective in ("allgather", "reduce-scatter", "barrier"):
        for report in run_perf(emulation, f"lossy-{collective}", [*arguments, "-c", collective], 90):
            assert {row["wrong"] for row in report["rows"]} == {0}


def test_the_example_in_c_sums(start: Start) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("cc not found")
    libraries = ROOT / find_binary("inca-agent").rsplit("/", 1)[0]
    emulation = start(topology.single("t", [3]))
    program = emulation.run_dir / "sum"
    command = [compiler, "-std=c99", "-Wall", "-Wextra", "-Werror", "-I", str(ROOT / "include")]
    command += [str(ROOT / "capi" / "examples" / "sum.c"), "-L", str(libraries), "-linca", "-o", str(program)]
    subprocess.run(command, check=True, timeout=60)
    program.chmod(0o755)
    argv = [str(program), "{controller}", "c", "{rank}", "{world}", "{interface}"]
    outcomes = emulation.run_workers(lambda _worker: argv, "c", 60, {"LD_LIBRARY_PATH": str(libraries)})
    for rank, outcome in enumerate(outcomes):
        assert outcome.json() == {"rank": rank, "world": 3, "wrong": 0}
