"""The command `loss`: its arguments and its table."""

from __future__ import annotations

import pytest

from inca_net.loss import Row, line, parse_losses
from inca_net.topology import TopologyError


def test_losses_are_probabilities() -> None:
    assert parse_losses("0,0.1") == [0, 0.1]


@pytest.mark.parametrize("text", ["", "0,", "ten", "1", "-0.1,0"])
def test_others_are_refused_with_what_was_given(text: str) -> None:
    with pytest.raises(TopologyError, match=f"losses '{text}'"):
        parse_losses(text)


def test_each_rate_stands_beside_none() -> None:
    rows = [Row("bmv2", loss, 65536, "i32", 3, 0, 0, 1.0, goodput) for loss, goodput in ((0.0, 4.0), (0.1, 1.0))]
    assert "100.0%" in line(rows[0], rows)
    assert "25.0%" in line(rows[1], rows)
