"""A small classifier in numpy, trained data-parallel: what the demo sums are its real gradients.

The digits data set (1,797 images of 8x8 pixels, scikit-learn's copy), a network 64 - hidden - 10, softmax and
cross-entropy, plain gradient descent. Everything follows from a seed, so any rank can compute what the others send.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

INPUTS = 64
CLASSES = 10
BRIGHTEST = 16.0
TEST_SHARE = 5


@dataclass(frozen=True)
class Samples:
    """Images (n, 64) and their classes (n)."""

    images: Floats
    labels: NDArray[np.int64]

    def part(self, start: int, stop: int) -> Samples:
        """Some of them."""
        return Samples(self.images[start:stop], self.labels[start:stop])


def export_digits(path: Path) -> None:
    """Writes the data set where workers read it; takes scikit-learn, which they then need not load."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    np.savez(path, images=(digits.data / BRIGHTEST).astype(np.float32), labels=digits.target.astype(np.int64))


def load_digits(path: Path, seed: int) -> tuple[Samples, Samples]:
    """Shuffled samples for training and, a fifth, for testing."""
    with np.load(path) as file:
        images, labels = file["images"], file["labels"]
    order = np.random.default_rng(seed).permutation(len(labels))
    everything = Samples(images[order], labels[order])
    test = len(labels) // TEST_SHARE
    return everything.part(test, len(labels)), everything.part(0, test)


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
