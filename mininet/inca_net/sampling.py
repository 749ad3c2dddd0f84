"""How busy the machine is while something is measured, and what goes over the links."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

PERIOD = 0.1
# A window counts as busy in which the links carried at least so much of what they carried in the busiest.
BUSY = 0.5


@dataclass(frozen=True)
class Window:
    """Seconds of all cores, seconds of them idle, and bytes on the watched links."""

    total: float
    idle: float
    bytes: int


def busy_cpu(windows: Sequence[Window]) -> float | None:
    """Share of all cores that was in use while the links were busy; None if nothing was sent."""
    most = max((window.bytes for window in windows), default=0)
    busy = [window for window in windows if window.bytes >= BUSY * most and window.total > 0]
    if most == 0 or not busy:
        return None
    return 1.0 - sum(window.idle for window in busy) / sum(window.total for window in busy)


def cpu_times() -> tuple[float, float]:
    """All and idle ticks of the machine so far, other programs included."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return float(sum(fields)), float(fields[3] + fields[4])


def interface_bytes(interface: str) -> tuple[int, int]:
    """Bytes that an interface of this namespace has received and sent."""
    folder = Path("/sys/class/net") / interface / "statistics"
    return int((folder / "rx_bytes").read_text()), int((folder / "tx_bytes").read_text())


class Sampler:
    """Context manager: samples CPU and interfaces in a thread of its own."""

    def __init__(self, interfaces: Sequence[str]) -> None:
        self.interfaces = list(interfaces)
        self.windows: list[Window] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Sampler:
        self._thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    @property
    def cpu(self) -> float | None:
        """See `busy_cpu`."""
        return busy_cpu(self.windows)

    def _run(self) -> None:
        # An interrupt may come between the thread's start and the `with`: then the network ends before the samples.
        with contextlib.suppress(OSError):
            self._sample()

    def _sample(self) -> None:
        before, carried = cpu_times(), self._bytes()
        deadline = time.monotonic()
        while not self._ended.is_set():
            deadline += PERIOD
            self._ended.wait(max(0.0, deadline - time.monotonic()))
            now, bytes_now = cpu_times(), self._bytes()
            self.windows.append(Window(now[0] - before[0], now[1] - before[1], bytes_now - carried))
            before, carried = now, bytes_now

    def _bytes(self) -> int:
        return sum(sum(interface_bytes(name)) for name in self.interfaces)
