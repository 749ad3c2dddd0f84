"""These tests build networks, so the whole pytest process must be isolated: make test-net, or

    PYTHONPATH=mininet /usr/bin/python3 -m inca_net pytest mininet/tests/net

SWITCH=bmv2 or SWITCH=embedded runs them on that switch alone.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from inca_net.emulation import Emulation, Settings
from inca_net.nodes import ROOT
from inca_net.topology import Network

sys.path.insert(0, str(Path(__file__).parent))

import bridge

bridge.register()

RUN_DIR = ROOT / "target" / "net" / "tests"
KINDS = ("embedded", "bmv2")

Start = Callable[..., Emulation]


def pytest_configure() -> None:
    if os.getpid() != 1:
        pytest.exit("not isolated; run: PYTHONPATH=mininet /usr/bin/python3 -m inca_net pytest ...", 3)


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """The switch that a test runs on; absent ones are skipped with the reason."""
    chosen: str = request.param
    wanted = os.environ.get("SWITCH", "")
    if wanted and wanted != chosen:
        pytest.skip(f"SWITCH={wanted}")
    if chosen == "bmv2" and shutil.which("simple_switch_grpc") is None:
        pytest.skip("simple_switch_grpc not found")
    return chosen


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts an emulation that ends with the test: `start(network, switch=..., ...)`."""
    with ExitStack() as stack:

        def starter(network: Network, **settings: object) -> Emulation:
            folder = RUN_DIR / request.node.name.replace("/", "-")
            shutil.rmtree(folder, ignore_errors=True)
            return stack.enter_context(Emulation(network, Settings(run_dir=folder, **settings)))  # type: ignore[arg-type]

        yield starter
