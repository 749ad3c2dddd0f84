"""bfp8 and bfp16 as docs/number-formats.md defines them, in numpy: an oracle written apart from switches and agents.

Encodes every rank's block, sums the mantissas exactly, rounds once, decodes: the bits that every rank must receive.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

WORD_BITS = 2048
LEAST_EXPONENT = -149

Floats = NDArray[np.float32]


def guard_bits(world: int, lane_bits: int = 16) -> int:
    """G: how far apart exponents may be for a sum to be exact in lanes of twice as many bits."""
    return max(0, min(lane_bits - 1, lane_bits - (world - 1).bit_length()))


def allreduce(inputs: Sequence[Floats], chunk_words: int, lane_bits: int = 16) -> Floats:
    """The sum over ranks, chunk by chunk, as every rank receives it. Finite inputs of one length."""
    length = chunk_words * WORD_BITS // lane_bits
    parts = [
        sum_blocks([values[start : start + length] for values in inputs], lane_bits)
        for start in range(0, len(inputs[0]), length)
    ]
    return np.concatenate(parts) if parts else np.zeros(0, np.float32)


def sum_blocks(blocks: Sequence[Floats], lane_bits: int = 16) -> Floats:
    """One chunk."""
    guard = guard_bits(len(blocks), lane_bits)
    exponents = [exponent for block in blocks if (exponent := block_exponent(block, lane_bits)) is not None]
    if not exponents:
        return np.zeros(len(blocks[0]), np.float32)
    largest, smallest = max(exponents), min(exponents)
    total = np.zeros(len(blocks[0]), np.int64)
    for block in blocks:
        exponent = block_exponent(block, lane_bits)
        if exponent is None:
            continue
        # Too far apart: the switches flag it, and all repeat the chunk at the largest exponent.
        exponent = largest if largest - smallest > guard else exponent
        total += mantissas(block, exponent) << (guard - (largest - exponent))
    return round_once(total, largest - guard, lane_bits)


def block_exponent(block: Floats, lane_bits: int = 16) -> int | None:
    """The smallest e >= -149 for which every |round(x / 2^e)| < 2^(w-1); None for a block of zeros."""
    peak = float(np.max(np.abs(block.astype(np.float64)), initial=0.0))
    if peak == 0.0:
        return None
    exponent = max(LEAST_EXPONENT, int(np.frexp(peak)[1]) - lane_bits)
    while abs(int(np.rint(np.ldexp(peak, -exponent)))) >= 1 << (lane_bits - 1):
        exponent += 1
    return exponent


def mantissas(block: Floats, exponent: int) -> NDArray[np.int64]:
    """round(x / 2^exponent), ties to even; exact in float64, since it only moves the binary point."""
    rounded: NDArray[np.int64] = np.rint(np.ldexp(block.astype(np.float64), -exponent)).astype(np.int64)
    return rounded


def round_once(total: NDArray[np.int64], exponent: int, lane_bits: int = 16) -> Floats:
    """What the root does: lanes of 2w bits to w, with the exponent that keeps most bits."""
    magnitude = np.where(total >= 0, total, -total - 1)
    judged = magnitude + ((magnitude + (1 << (lane_bits - 1))) >> lane_bits)
    bits = int(np.bitwise_or.reduce(judged)).bit_length()
    shift = max(0, bits - (lane_bits - 1))
    # Below 2^53 the division by a power of two is exact, so rint rounds once, ties to even.
    mantissa = np.rint(np.ldexp(total.astype(np.float64), -shift))
    result: Floats = np.ldexp(mantissa, exponent + shift).astype(np.float32) + np.float32(0.0)
    return result
