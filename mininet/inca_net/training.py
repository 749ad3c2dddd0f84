"""A small classifier in numpy, trained data-parallel: what the demo sums are its real gradients.

Ten noisy, shifted 5x7 digits on a 10x10 grid, a network 100 - hidden - 10, softmax and cross-entropy, plain gradient
descent. Everything follows from seeds, so any rank can compute what the others send.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

GLYPHS = (
    "01110 10001 10011 10101 11001 10001 01110",
    "00100 01100 00100 00100 00100 00100 01110",
    "01110 10001 00001 00010 00100 01000 11111",
    "11111 00010 00100 00010 00001 10001 01110",
    "00010 00110 01010 10010 11111 00010 00010",
    "11111 10000 11110 00001 00001 10001 01110",
    "00110 01000 10000 11110 10001 10001 01110",
    "11111 00001 00010 00100 01000 01000 01000",
    "01110 10001 10001 01110 10001 10001 01110",
    "01110 10001 10001 01111 00001 00010 01100",
)
SIDE = 10
INPUTS = SIDE * SIDE
CLASSES = 10
NOISE = 0.25


@dataclass(frozen=True)
class Samples:
    """Images (n, 100) and their classes (n)."""

    images: Floats
    labels: NDArray[np.int64]


def samples(seed: int, count: int) -> Samples:
    """Reproducible images: a glyph somewhere on the grid, with noise."""
    random = np.random.default_rng(seed)
    glyphs = np.array([[[int(bit) for bit in row] for row in glyph.split()] for glyph in GLYPHS], np.float32)
    labels = random.integers(CLASSES, size=count)
    images = random.normal(0.0, NOISE, (count, SIDE, SIDE)).astype(np.float32)
    tops = random.integers(SIDE - 7 + 1, size=count)
    lefts = random.integers(SIDE - 5 + 1, size=count)
    for image, label, top, left in zip(images, labels, tops, lefts, strict=True):
        image[top : top + 7, left : left + 5] += glyphs[label]
    return Samples(images.reshape(count, INPUTS), labels)


class Classifier:
    """The network; all parameters lie in one flat vector, as a training framework's gradient bucket does."""

    def __init__(self, hidden: int, seed: int) -> None:
        self.shapes = [(INPUTS, hidden), (hidden,), (hidden, CLASSES), (CLASSES,)]
        random = np.random.default_rng(seed)
        parts = [
            random.normal(0.0, 1.0 / np.sqrt(shape[0]), shape) if len(shape) > 1 else np.zeros(shape)
            for shape in self.shapes
        ]
        self.parameters = np.concatenate([part.ravel() for part in parts]).astype(np.float32)

    def layers(self) -> list[Floats]:
        """Views into the parameters."""
        views, start = [], 0
        for shape in self.shapes:
            size = int(np.prod(shape))
            views.append(self.parameters[start : start + size].reshape(shape))
            start += size
        return views

    def forward(self, data: Samples) -> tuple[Floats, Floats]:
        """Hidden activations and class probabilities."""
        weights1, bias1, weights2, bias2 = self.layers()
        hidden = np.maximum(data.images @ weights1 + bias1, 0.0)
        scores = hidden @ weights2 + bias2
        scores = np.exp(scores - scores.max(axis=1, keepdims=True))
        return hidden, scores / scores.sum(axis=1, keepdims=True)

    def loss(self, data: Samples) -> float:
        """Mean cross-entropy."""
        _, probabilities = self.forward(data)
        right = probabilities[np.arange(len(data.labels)), data.labels]
        return float(-np.log(np.maximum(right, 1e-30)).mean())

    def accuracy(self, data: Samples) -> float:
        """Share of images whose most probable class is right."""
        _, probabilities = self.forward(data)
        return float((probabilities.argmax(axis=1) == data.labels).mean())

    def gradient(self, data: Samples) -> Floats:
        """Of the mean loss, by back-propagation, flat."""
        _, _, weights2, _ = self.layers()
        hidden, errors = self.forward(data)
        errors[np.arange(len(data.labels)), data.labels] -= 1.0
        errors /= len(data.labels)
        back = (errors @ weights2.T) * (hidden > 0.0)
        parts = [data.images.T @ back, back.sum(axis=0), hidden.T @ errors, errors.sum(axis=0)]
        gradient: Floats = np.concatenate([part.ravel() for part in parts]).astype(np.float32)
        return gradient

    def step(self, gradient: Floats, rate: float) -> None:
        """One step of gradient descent."""
        self.parameters -= np.float32(rate) * gradient
