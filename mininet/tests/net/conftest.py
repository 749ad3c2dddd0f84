"""These tests build networks, so the whole pytest process must be isolated: make test-net, or

PYTHONPATH=mininet /usr/bin/python3 -m inca_net pytest mininet/tests/net
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from inca_net.emulation import Emulation, Settings
from inca_net.nodes import ROOT
from inca_net.topology import Network

sys.path.insert(0, str(Path(__file__).parent))

import bridge  # noqa: E402

bridge.register()

RUN_DIR = ROOT / "target" / "net" / "tests"

Start = Callable[..., Emulation]


def pytest_configure() -> None:
    if os.getpid() != 1:
        pytest.exit("not isolated; run: PYTHONPATH=mininet /usr/bin/python3 -m inca_net pytest ...", 3)


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Iterator[Start]:
    """Starts an emulation that ends with the test: `start(network, switch=..., ...)`."""
    with ExitStack() as stack:

        def starter(network: Network, **settings: object) -> Emulation:
            folder = RUN_DIR / request.node.name.replace("/", "-")
            return stack.enter_context(Emulation(network, Settings(run_dir=folder, **settings)))  # type: ignore[arg-type]

        yield starter
