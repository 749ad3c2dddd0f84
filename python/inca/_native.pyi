"""Types of the extension module."""

from types import TracebackType
from typing import Any, Literal, Self

Op = Literal["sum", "average", "avg", "min", "max"]
# Anything with the buffer protocol; Python names that from 3.12 on only.
Buffer = Any

class Handle:
    """An operation under way. Its arrays must not be touched until it has ended; they are kept alive until then."""

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the operation has ended; raises what it failed with.

        With a timeout (seconds): False if it has not ended by then; it goes on.
        """

    def done(self) -> bool:
        """Whether it has ended, well or not; never blocks."""

    def cancel(self) -> None:
        """Gives it up. The other ranks can't finish it either: the group ends for all."""

class Communicator:
    """One rank of a group. A context manager: it leaves at the end."""

    @staticmethod
    def join(
        controller: str,
        job: str,
        rank: int,
        world: int,
        *,
        group: str = "",
        dtype: str = "f32",
        op: Op = "sum",
        format: str | None = None,
        chunk_words: int = 5,
        interface: str | None = None,
        host_address: str | None = None,
        timeout: float = 60.0,
        on_failure: Literal["abort", "shrink"] = "abort",
        fallback: Literal["error", "ring"] = "error",
        window: int = 16,
        max_window: int = 256,
        seed: int = 1,
        token: str | None = None,
        ca: str | None = None,
        job_token: str | None = None,
        queue: float | None = None,
    ) -> Communicator:
        """Joins a job: waits until all ranks are there and their trees are installed, at most `timeout` seconds.

        controller    its northbound address, http://ADDRESS:PORT; several, separated by commas
        dtype, op     what the job mostly reduces: they choose the number format, unless `format` names one
        chunk_words   words of 2048 bits per packet, 1 to 32: what fits the MTU, and the block length of block formats
        interface     the data-plane interface (or `host_address`, its address); by default the only one there is
        on_failure    what becomes of the group when a rank dies: it ends for all, or shrinks
        fallback      what if there is no tree: an error, or a ring of the hosts over TCP
        window, max_window   packets in flight, at first and at most
        token, ca     where the controller wants a token; the certificates (PEM) that vouch for an https:// one

        job_token     of a submitted job, or a secret of 16 to 256 bytes of the job's ranks: nobody else joins it then
        queue         where the switches have no room: seconds (math.inf: any time) to wait for a turn; None: be refused

        Job, world, dtype, format, chunk_words, on_failure, fallback, queue and job_token must be the same on all ranks.
        """

    @property
    def rank(self) -> int: ...
    @property
    def world_size(self) -> int: ...
    @property
    def members(self) -> list[int]: ...
    @property
    def generation(self) -> int: ...
    @property
    def format(self) -> str: ...
    @property
    def chunk_elements(self) -> int: ...
    @property
    def fallback(self) -> str | None: ...
    @property
    def closed(self) -> str | None: ...
    def allreduce(
        self,
        array: Buffer,
        out: Buffer | None = None,
        *,
        op: Op = "sum",
        timeout: float = 60.0,
        dtype: str | None = None,
    ) -> None:
        """Reduces an array over all ranks, in place or into `out`; blocks, at most `timeout` seconds.

        `dtype` names the element type where the array can't: bf16, f8e4m3, f8e5m2, i4 (two in a byte).
        """

    def start_allreduce(
        self,
        array: Buffer,
        out: Buffer | None = None,
        *,
        op: Op = "sum",
        timeout: float = 60.0,
        dtype: str | None = None,
    ) -> Handle:
        """As `allreduce`; returns at once. Calls that overlap are pipelined."""

    def reduce(
        self, array: Buffer, root: int = 0, *, op: Op = "sum", timeout: float = 60.0, dtype: str | None = None
    ) -> None:
        """Reduces an array over all ranks to the root, in place; the other ranks' stay as they are."""

    def start_reduce(
        self, array: Buffer, root: int = 0, *, op: Op = "sum", timeout: float = 60.0, dtype: str | None = None
    ) -> Handle:
        """As `reduce`; returns at once. Calls that overlap are pipelined."""

    def broadcast(self, array: Buffer, root: int = 0, *, timeout: float = 60.0, dtype: str | None = None) -> None:
        """Copies the root's array to all ranks, bit for bit; the root's may be read-only."""

    def start_broadcast(
        self, array: Buffer, root: int = 0, *, timeout: float = 60.0, dtype: str | None = None
    ) -> Handle:
        """As `broadcast`; returns at once. Calls that overlap are pipelined."""

    def allgather(self, array: Buffer, out: Buffer, *, timeout: float = 60.0, dtype: str | None = None) -> None:
        """Puts all ranks' arrays, which are of one length, one behind the other into `out`, bit for bit."""

    def start_allgather(self, array: Buffer, out: Buffer, *, timeout: float = 60.0, dtype: str | None = None) -> Handle:
        """As `allgather`; returns at once. Calls that overlap are pipelined."""

    def reduce_scatter(
        self, array: Buffer, out: Buffer, *, op: Op = "sum", timeout: float = 60.0, dtype: str | None = None
    ) -> None:
        """Reduces arrays of as many equal parts as there are ranks; `out` gets this rank's part."""

    def start_reduce_scatter(
        self, array: Buffer, out: Buffer, *, op: Op = "sum", timeout: float = 60.0, dtype: str | None = None
    ) -> Handle:
        """As `reduce_scatter`; returns at once. Calls that overlap are pipelined."""

    def barrier(self, *, timeout: float = 60.0) -> None:
        """Returns when all ranks have called it."""

    def alltoall(self, array: Buffer, out: Buffer, *, timeout: float = 60.0, dtype: str | None = None) -> None:
        """Exchanges parts: both arrays have one for each rank, of one length; part j of rank i becomes part i of j.

        From host to host. Blocks; no other operation of the group may be started meanwhile.
        """

    def connect_peers(self, *, timeout: float = 60.0) -> None:
        """Tells all ranks where this one listens. A collective: needed once, before anyone calls `send` or `recv`."""

    def send(self, array: Buffer, to: int, *, tag: int = 0, timeout: float = 60.0, dtype: str | None = None) -> None:
        """Sends an array to another rank, which must receive it with the same tag, type and length.

        Returns when it is on its way, which is not to say that it has arrived.
        """

    def recv(
        self, array: Buffer, source: int, *, tag: int = 0, timeout: float = 60.0, dtype: str | None = None
    ) -> None:
        """Receives an array from another rank. Blocks."""

    def split(self, color: int | None, key: int = 0, *, timeout: float = 60.0) -> Communicator | None:
        """Splits the group: ranks of one color form a new one, ordered by key, then rank. None: this one joins none.

        A collective: all ranks must call it. The new group goes on beside the old one.
        """

    def new_group(self, ranks: list[int], *, timeout: float = 60.0) -> Communicator | None:
        """Forms a group of some ranks, in the order given. All ranks must call it, with the same list."""

    def stats(self) -> dict[str, int | float | None]:
        """Counters since joining."""

    def leave(self) -> None:
        """Leaves the job. Calls under way fail, here and at the other ranks. Leaving twice is leaving once."""

    def __enter__(self) -> Self: ...
    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool: ...

def set_log(filter: str) -> None:
    """Prints the library's log to stderr: error, warn, info, debug, or a filter. Once for the process."""
