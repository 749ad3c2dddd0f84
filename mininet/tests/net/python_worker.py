"""One rank that uses the Python package: runs a scenario, prints what came of it as a line of JSON."""

from __future__ import annotations

import argparse
import array
import json
import threading
import time
from collections.abc import Callable
from typing import Any

import inca
import numpy as np

Report = dict[str, Any]


class Ranks:
    """Joins jobs of a scenario."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.rank: int = options.rank
        self.world: int = options.world

    def join(self, job: str, **options: Any) -> inca.Communicator:
        given = self.options
        return inca.Communicator.join(
            given.controller, job, self.rank, self.world, interface=given.interface, timeout=30.0, **options
        )


def kind_of(call: Callable[[], Any]) -> str:
    """The class of what a call raises, and of what that is besides."""
    try:
        call()
    except inca.IncaError as error:
        return type(error).__name__ if str(error) else "no message"
    return "nothing"


def values(rank: int, count: int, dtype: str) -> np.ndarray:
    """Small integers, whose sums every type holds."""
    return ((np.arange(count) * 7 + rank * 3) % 11 - (0 if dtype == "uint8" else 5)).astype(dtype)


def exact(ranks: Ranks) -> Report:
    """Every type and reduction against NumPy, in place, into another array, and overlapping calls with handles."""
    wrong = []
    reductions = {
        "sum": lambda stack: stack.sum(axis=0),
        "average": lambda stack: stack.mean(axis=0),
        "min": lambda stack: stack.min(axis=0),
        "max": lambda stack: stack.max(axis=0),
    }
    cases = [
        ("float32", "f32"),
        ("float16", "f16"),
        ("int8", "i8"),
        ("int32", "i32"),
        ("int64", "i64"),
        ("uint8", "u8"),
    ]
    for dtype, name in cases:
        for op in reductions if dtype == "float32" else ("sum",):
            with ranks.join(f"exact-{name}-{op}", dtype=name, op=op) as group:
                for count in (0, 1, group.chunk_elements + 1, 5000):
                    stack = np.stack([values(rank, count, dtype) for rank in range(ranks.world)])
                    expected = reductions[op](stack.astype(np.float64)).astype(dtype)
                    mine = stack[ranks.rank].copy()
                    result = np.zeros_like(mine)
                    group.allreduce(mine, result, op=op, timeout=20.0)
                    untouched = np.array_equal(mine, stack[ranks.rank])
                    group.allreduce(mine, op=op, timeout=20.0)
                    right = np.array_equal(result, mine) and untouched
                    if dtype != "float32" or op != "average":
                        right = right and np.array_equal(mine, expected)
                    else:
                        right = right and bool(np.all(np.abs(mine - expected) <= 5 * 2.0**-15))
                    if not right:
                        wrong.append([name, op, count])
    with ranks.join("handles", dtype="i32") as group:
        arrays = [np.full(37 * call, call, np.int32) for call in range(30)]
        handles = [group.start_allreduce(each, timeout=20.0) for each in arrays]
        assert all(handle.wait() for handle in reversed(handles))
        assert all(handle.done() for handle in handles)
        wrong += [["handles", call] for call, each in enumerate(arrays) if not np.all(each == call * ranks.world)]
        # Anything with a buffer; a matrix; a scalar's array; a slice of whole rows.
        plain = array.array("i", [ranks.rank] * 5)
        group.allreduce(plain)
        matrix = np.full((4, 3), ranks.rank, np.int32)
        group.allreduce(matrix[1:3])
        total = sum(range(ranks.world))
        if list(plain) != [total] * 5 or not np.array_equal(matrix[:, 0], [ranks.rank, total, total, ranks.rank]):
            wrong.append(["buffers"])
        stats = group.stats()
    return {"wrong": wrong, "chunks": stats["chunks"], "closed": kind_of(lambda: group.allreduce(plain))}


def misuse(ranks: Ranks) -> Report:
    """What is refused, by name, and that the group goes on after it."""
    found: dict[str, str] = {}
    with ranks.join("misuse", dtype="f32") as group:
        matrix = np.arange(12, dtype=np.float32).reshape(3, 4)
        fixed = np.ones(3, np.float32)
        fixed.flags.writeable = False
        line = np.zeros(8, np.float32)
        tries: dict[str, Callable[[], Any]] = {
            "column": lambda: group.allreduce(matrix[:, 1]),
            "every second": lambda: group.allreduce(line[::2]),
            "transposed": lambda: group.allreduce(matrix.T),
            "read-only": lambda: group.allreduce(fixed),
            "float64": lambda: group.allreduce(np.ones(3)),
            "big-endian": lambda: group.allreduce(np.ones(3, ">f4")),
            "list": lambda: group.allreduce([1.0, 2.0]),  # type: ignore[arg-type]
            "int32 in bfp16": lambda: group.allreduce(np.ones(3, np.int32)),
            "max in bfp16": lambda: group.allreduce(line, op="max"),
            "unknown op": lambda: group.allreduce(line, op="median"),  # type: ignore[arg-type]
            "short output": lambda: group.allreduce(line, line[1:].copy()),
            "overlap": lambda: group.allreduce(line[:4], line[2:6]),
            "dtype of another size": lambda: group.allreduce(line, dtype="bf16"),
            "negative timeout": lambda: group.allreduce(line, timeout=-1.0),
        }
        found = {name: kind_of(call) for name, call in tries.items()}
        untouched = np.array_equal(matrix, np.arange(12).reshape(3, 4)) and not line.any()
        ones = np.ones(3, np.float32)
        group.allreduce(ones, timeout=20.0)
        goes_on = bool(np.all(ones == ranks.world))
    alone = inca.Communicator.join(
        ranks.options.controller, f"alone-{ranks.rank}", 0, 1, interface=ranks.options.interface, timeout=30.0
    )
    with alone:
        mine = np.array([1.0, -2.5], np.float32)
        alone.allreduce(mine)
    found["bad rank"] = kind_of(
        lambda: inca.Communicator.join(ranks.options.controller, "x", 5, 2, interface=ranks.options.interface)
    )
    return {"found": found, "untouched": untouched, "goes_on": goes_on, "alone": mine.tolist()}


def mismatch(ranks: Ranks) -> Report:
    """Ranks that differ in one thing: every one of them gets the same kind of error."""
    found = {}
    with ranks.join("length", dtype="i32") as group:
        try:
            group.allreduce(np.ones(100 + ranks.rank, np.int32), timeout=20.0)
        except inca.Mismatch as error:
            # Every rank's call is named.
            named = all(f"{100 + rank} i32" in str(error) for rank in range(ranks.world))
            found["length"] = "Mismatch" if named else str(error)
        found["after"] = kind_of(lambda: group.allreduce(np.ones(1, np.int32)))
    with ranks.join("op", dtype="i32") as group:
        op = "sum" if ranks.rank else "average"
        found["op"] = kind_of(lambda: group.allreduce(np.ones(9, np.int32), op=op, timeout=20.0))  # type: ignore[arg-type]
    with ranks.join("overflow", dtype="i32") as group:
        most = np.full(3, 2**31 - 1, np.int32)
        found["overflow"] = kind_of(lambda: group.allreduce(most, timeout=20.0))
        one = np.ones(1, np.int32)
        group.allreduce(one, timeout=20.0)
        found["after overflow"] = str(one[0])
    return {"found": found}


def absent(ranks: Ranks) -> Report:
    """Rank 0 alone calls: its deadline names the others; a cancelled call ends the group."""
    with ranks.join("absent", dtype="i32") as group:
        if ranks.rank == 0:
            started = time.monotonic()
            try:
                group.allreduce(np.ones(10, np.int32), timeout=0.6)
                raised, missing = "nothing", []
            except inca.DeadlineExceeded as error:
                raised, missing = type(error).__name__, error.missing_ranks
            spent = time.monotonic() - started
        else:
            time.sleep(2.0)
            raised, missing, spent = kind_of(lambda: group.allreduce(np.ones(10, np.int32), timeout=20.0)), [], 1.0
    with ranks.join("cancelled", dtype="i32") as group:
        if ranks.rank == 0:
            kept = np.ones(100_000, np.int32)
            handle = group.start_allreduce(kept, timeout=20.0)
            assert handle.wait(0.2) is False
            # While this thread waits for it.
            threading.Timer(0.2, handle.cancel).start()
            cancelled = kind_of(handle.wait)
        else:
            cancelled = ""
            deadline = time.monotonic() + 10
            while group.closed is None and time.monotonic() < deadline:
                time.sleep(0.01)
    return {"raised": raised, "missing": missing, "spent": spent, "cancelled": cancelled}


def collectives(ranks: Ranks) -> Report:
    """Every collective against NumPy, blocking and overlapping; wrong use of them."""
    wrong: list[str] = []
    rank, world = ranks.rank, ranks.world

    def check(what: str, got: np.ndarray, right: np.ndarray) -> None:
        if got.tobytes() != right.tobytes():
            wrong.append(what)

    with ranks.join("collectives", dtype="i32") as group:
        for part in (0, 1, 7, 321, 5000):
            whole = [np.arange(part * world, dtype=np.int32) * (each + 1) for each in range(world)]
            total = np.sum(whole, axis=0, dtype=np.int32)
            mine = whole[rank].copy()
            group.reduce(mine, 1, timeout=20.0)
            check(f"reduce {part}", mine, total if rank == 1 else whole[rank])
            mine = whole[rank].copy()
            group.broadcast(mine, 2, timeout=20.0)
            check(f"broadcast {part}", mine, whole[2])
            parts = [each[:part] for each in whole]
            gathered = np.zeros(part * world, np.int32)
            group.allgather(parts[rank], gathered, timeout=20.0)
            check(f"allgather {part}", gathered, np.concatenate(parts))
            shard = np.zeros(part, np.int32)
            group.reduce_scatter(whole[rank], shard, timeout=20.0)
            check(f"reduce-scatter {part}", shard, total[rank * part : (rank + 1) * part])
            group.barrier(timeout=20.0)
            swapped = np.zeros(part * world, np.int32)
            group.alltoall(whole[rank], swapped, timeout=20.0)
            check(
                f"all-to-all {part}", swapped, np.concatenate([each[rank * part : (rank + 1) * part] for each in whole])
            )
        # Of any type, bit for bit, although the job sums i32; NaN's payload included.
        bits = np.array([0x7FC12345, 0xFF800000, 1, 0x80000000], np.uint32).view(np.float32)
        got = bits.copy() if rank == 0 else np.zeros(4, np.float32)
        got.flags.writeable = rank != 0
        group.broadcast(got)
        check("bits", got, bits)
        handles = []
        outputs = [np.zeros(world * 100, np.int64) for _ in range(10)]
        for number, output in enumerate(outputs):
            handles.append(group.start_allgather(np.full(100, rank * 1000 + number, np.int64), output))
        if not all(handle.wait(20.0) for handle in handles):
            wrong.append("slow")
        for number, output in enumerate(outputs):
            check("overlapping", output, np.repeat(np.arange(world) * 1000 + number, 100))
        # In a ring, without deadlock: everyone sends first.
        message = np.full(200_000, rank, np.float64).view(np.int64)
        group.send(message, (rank + 1) % world, tag=3)
        received = np.zeros_like(message)
        group.recv(received, (rank - 1) % world, tag=3)
        check("message", received, np.full(200_000, (rank - 1) % world, np.float64).view(np.int64))
        mine = np.zeros(4, np.int32)
        found = {
            "root": kind_of(lambda: group.broadcast(mine, world)),
            "gather": kind_of(lambda: group.allgather(mine, np.zeros(4 * world + 1, np.int32))),
            "scatter": kind_of(lambda: group.reduce_scatter(np.zeros(world + 1, np.int32), np.zeros(1, np.int32))),
            "types": kind_of(lambda: group.allgather(mine, np.zeros(4 * world, np.float32))),
            "uneven": kind_of(lambda: group.alltoall(np.zeros(world + 1, np.int32), np.zeros(world + 1, np.int32))),
            "nobody": kind_of(lambda: group.send(mine, 99)),
            "never sent": kind_of(lambda: group.recv(mine, (rank + 1) % world, tag=9, timeout=0.2)),
        }
        group.send(mine[:3], (rank + 1) % world, tag=4)
        found["other shape"] = kind_of(lambda: group.recv(mine, (rank - 1) % world, tag=4, timeout=20.0))
        group.barrier(timeout=20.0)
    with ranks.join("roots", dtype="i32") as group:
        found["roots differ"] = kind_of(lambda: group.broadcast(mine, min(rank, 1), timeout=20.0))
    return {"wrong": wrong, "found": found}


def groups(ranks: Ranks) -> Report:
    """Rows and columns of a square of ranks beside the whole, all in use at once; groups that ranks disagree about."""
    wrong: list[str] = []
    rank, world = ranks.rank, ranks.world
    with ranks.join("groups", dtype="i32") as whole:
        row = whole.split(rank // 2, timeout=30.0)
        column = whole.split(rank % 2, -rank, timeout=30.0)
        some = whole.new_group([2, 0], timeout=30.0)
        assert row is not None
        assert column is not None
        places = [row.rank, row.world_size, column.rank, some.rank if some else None]
        for step in range(20):
            arrays = [np.full(400, rank + step, np.int32) for _ in range(3)]
            handles = [group.start_allreduce(array) for group, array in zip((whole, row, column), arrays, strict=True)]
            # Another order of waiting at every rank.
            for handle in handles[rank % 3 :] + handles[: rank % 3]:
                if not handle.wait(20.0):
                    wrong.append("slow")
            pairs = [range(world), [rank // 2 * 2, rank // 2 * 2 + 1], [rank % 2, rank % 2 + 2]]
            for array, pair in zip(arrays, pairs, strict=True):
                if not np.all(array == sum(each + step for each in pair)):
                    wrong.append(f"step {step}")
        if some:
            mine = np.array([rank], np.int32)
            both = np.zeros(2, np.int32)
            some.allgather(mine, both, timeout=20.0)
            if both.tolist() != [2, 0]:
                wrong.append("order of a new group")
            some.leave()
        alone = whole.split(None if rank else 7, timeout=30.0)
        if (alone is not None) != (rank == 0):
            wrong.append("no color")
        row.leave()
        column.leave()
        ones = np.ones(5, np.int32)
        whole.allreduce(ones, timeout=20.0)
        if ones[0] != world:
            wrong.append("the whole goes on")
        found = {
            "strangers": kind_of(lambda: whole.new_group([0, 9])),
            "twice": kind_of(lambda: whole.new_group([1, 1])),
            "disagreement": kind_of(lambda: whole.new_group([0, 1] if rank else [1, 0], timeout=20.0)),
        }
    return {"wrong": wrong, "places": places, "found": found}


def swapped(ranks: Ranks) -> Report:
    """Two operations in another order at one rank: an error at every rank, never a sum of both."""
    results = []
    with ranks.join("swapped", dtype="i32") as group:
        first, second = np.full(3000, 1, np.int32), np.full(2000, 1000, np.int32)
        for array in [first, second] if ranks.rank else [second, first]:
            results.append(group.start_allreduce(array, timeout=20.0))
        found = [kind_of(handle.wait) for handle in results]
    mixed = bool(np.isin(first, [1, ranks.world]).all() and np.isin(second, [1000, 1000 * ranks.world]).all())
    return {"found": found, "unmixed": mixed}


def twice(ranks: Ranks) -> Report:
    """The same array twice in flight; two jobs at once whose arrays have the same names here."""
    rank, world = ranks.rank, ranks.world
    wrong = []
    with ranks.join("first", dtype="i32") as first, ranks.join("second", dtype="i32") as second:
        array = np.full(50_000, rank, np.int32)
        handle = first.start_allreduce(array, timeout=20.0)
        found = {
            "same": kind_of(lambda: first.start_allreduce(array)),
            "part": kind_of(lambda: first.start_broadcast(array[10:20], 0)),
        }
        handle.wait()
        first.allreduce(array, timeout=20.0)
        if not np.all(array == world * sum(range(world))):
            wrong.append("after")
        for step in range(20):
            gradients = [np.full(300, value + step, np.int32) for value in (1, 1000)]
            groups = (first, second) if rank % 2 else (second, first)
            ordered = gradients if rank % 2 else gradients[::-1]
            handles = [group.start_allreduce(each) for group, each in zip(groups, ordered, strict=True)]
            if not all(each.wait(20.0) for each in handles):
                wrong.append("slow")
            for gradient, value in zip(gradients, (1, 1000), strict=True):
                if not np.all(gradient == world * (value + step)):
                    wrong.append(f"step {step}")
    return {"wrong": wrong, "found": found}


SCENARIOS = {
    function.__name__: function for function in (exact, misuse, mismatch, absent, collectives, groups, swapped, twice)
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("scenario", choices=SCENARIOS)
    parser.add_argument("--controller", required=True)
    parser.add_argument("--interface", required=True)
    parser.add_argument("--rank", type=int, required=True)
    parser.add_argument("--world", type=int, required=True)
    options = parser.parse_args()
    print(json.dumps(SCENARIOS[options.scenario](Ranks(options))), flush=True)


if __name__ == "__main__":
    main()
