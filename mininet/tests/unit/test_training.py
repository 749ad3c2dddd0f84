"""The demo's network and its bfp16 oracle."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

from inca_net import blocks as bfp
from inca_net.training import CLASSES, INPUTS, Classifier, Samples, export_digits, load_digits


def exact(blocks: list[np.ndarray]) -> list[Fraction]:
    return [sum((Fraction(float(block[i])) for block in blocks), Fraction(0)) for i in range(len(blocks[0]))]


@pytest.mark.parametrize("world", [1, 2, 3, 4, 8])
@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-30])
def test_sum_is_within_the_formats_bound_of_the_exact_sum(world: int, spread: float) -> None:
    random = np.random.default_rng(world)
    blocks = [random.normal(0.0, spread**rank, 256).astype(np.float32) for rank in range(world)]
    result = bfp.allreduce(blocks, 2)
    # Half a unit of each rank's block and half a unit of the result's.
    units = [Fraction(2) ** e for block in blocks if (e := bfp.block_exponent(block)) is not None]
    largest = max(abs(value) for value in exact(blocks)) or Fraction(1)
    bound = world * max(units) / 2 + largest / 2**15
    for got, right in zip(result, exact(blocks), strict=True):
        assert abs(Fraction(float(got)) - right) <= bound


def test_sums_of_small_integers_are_exact() -> None:
    random = np.random.default_rng(7)
    blocks = [random.integers(-4000, 4000, 640).astype(np.float32) for _ in range(4)]
    assert np.array_equal(bfp.allreduce(blocks, 5), sum(blocks))


def test_blocks_do_not_touch_each_other_and_zeros_stay_zero() -> None:
    zeros = np.zeros(256, np.float32)
    one = zeros.copy()
    one[0], one[255] = 1.0, 1e-30
    result = bfp.allreduce([one, zeros], 1)
    assert result[0] == 1.0
    assert result[255] == pytest.approx(1e-30, rel=1e-4)
    assert not np.signbit(bfp.allreduce([-zeros, -zeros], 1)).any()


@pytest.mark.parametrize("value", [1e-45, 1.1754944e-38, 3.3e38, 32767.0, 32767.5, 3.0e-39])
def test_peaks_at_the_edges_keep_fifteen_bits(value: float) -> None:
    block = np.array([value, -value / 2], np.float32)
    result = bfp.allreduce([block], 1)
    assert np.allclose(result, block, rtol=2**-14, atol=1.5e-45)


def random_samples(count: int) -> Samples:
    random = np.random.default_rng(1)
    return Samples(random.random((count, INPUTS), np.float32), random.integers(CLASSES, size=count))


def test_gradient_agrees_with_finite_differences() -> None:
    data, network = random_samples(32), Classifier(8, 2)
    gradient = network.gradient(data)
    for index in (0, 57, 500, 515, 523, len(gradient) - 1):
        step = 2e-3
        network.parameters[index] += step
        above = network.loss(data)
        network.parameters[index] -= 2 * step
        below = network.loss(data)
        network.parameters[index] += step
        assert (above - below) / (2 * step) == pytest.approx(gradient[index], abs=2e-3)


def test_gradients_of_parts_average_to_that_of_the_whole() -> None:
    data, network = random_samples(64), Classifier(8, 2)
    parts = [network.gradient(data.part(start, start + 16)) for start in range(0, 64, 16)]
    assert np.allclose(np.mean(parts, axis=0), network.gradient(data), atol=1e-6)


def test_digits_are_split_reproducibly_into_training_and_test(tmp_path: Path) -> None:
    pytest.importorskip("sklearn", reason="python3-sklearn is not installed")
    export_digits(tmp_path / "digits.npz")
    training, test = load_digits(tmp_path / "digits.npz", 5)
    assert (len(training.labels), len(test.labels)) == (1438, 359)
    assert set(test.labels) == set(range(10))
    again, _ = load_digits(tmp_path / "digits.npz", 5)
    assert np.array_equal(training.images, again.images)
    other, _ = load_digits(tmp_path / "digits.npz", 6)
    assert not np.array_equal(training.images, other.images)
