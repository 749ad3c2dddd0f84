"""Eight jobs at once over the same switches."""

from __future__ import annotations

from conftest import Start

from inca_net import topology
from inca_net.sharing import measure

JOBS = 8
# Of the even part: this fails if a job starves. How evenly they share is measured by `make bench-jobs`.
LEAST = 0.4


def test_eight_jobs_share_switches_each_right_and_none_starving(kind: str, start: Start) -> None:
    emulation = start(topology.tree2("t", [JOBS, JOBS]), switch=kind)
    shares, _ = measure(emulation, JOBS, 6.0, 1 << 15)
    assert [share.wrong for share in shares] == [0] * JOBS
    assert min(share.operations for share in shares) >= 3
    assert min(share.share for share in shares) >= LEAST, shares
