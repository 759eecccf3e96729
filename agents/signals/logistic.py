"""Multinomial logistic regression by Newton's method, and the temperature that calibrates probabilities."""

from collections.abc import Callable

import numpy as np

from serl.agents.signals.grid import Floats
from serl.agents.signals.labels import CLASSES, Classes

RIDGE = 0.05
"""Ridge penalty, chosen among 0.001 to 0.2 on the calibration hours of the two sample days."""
ITERATIONS_MAX = 50
TOLERANCE, LENGTH_MIN = 1e-9, 1e-6
LOG_TEMPERATURES = (np.log(0.05), np.log(20.0))


def softmax(logits: Floats) -> Floats:
    """Probabilities along the last axis."""
    shifted = np.exp(logits - logits.max(axis=-1, keepdims=True))
    return np.asarray(shifted / shifted.sum(axis=-1, keepdims=True))


def log_loss(logits: Floats, labels: Classes) -> float:
    """Mean negative log probability of the labels [n] under logits [n, class]."""
    peak = logits.max(axis=1)
    total = peak + np.log(np.exp(logits - peak[:, np.newaxis]).sum(axis=1))
    return float((total - logits[np.arange(len(labels)), labels]).mean())


def fit_logistic(features: Floats, labels: Classes, classes: int = CLASSES) -> Floats:
    """[feature + 1, class] weights, the intercepts last: they minimise log loss + RIDGE / 2 |weights without intercepts|^2.

    features [n, feature], standardised; labels [n].
    """
    x = np.column_stack([features, np.ones(len(features))])
    weights: Floats = np.zeros((x.shape[1], classes))
    penalty = np.full(x.shape[1], RIDGE)
    penalty[-1] = 1e-9  # keeps the Hessian invertible: a constant in all intercepts changes nothing
    target = np.eye(classes)[labels]

    def step(weights: Floats) -> Floats:
        probabilities = softmax(x @ weights)
        gradient = x.T @ (probabilities - target) / len(x) + penalty[:, np.newaxis] * weights
        solved = np.asarray(np.linalg.solve(_hessian(x, probabilities, penalty), gradient.T.ravel()), np.float64)
        return solved.reshape(classes, -1).T

    return newton(weights, lambda tried: _objective(x, labels, tried, penalty), step)


def newton(weights: Floats, objective: Callable[[Floats], float], step: Callable[[Floats], Floats]) -> Floats:
    """Minimises an objective from initial weights; returns the weights. step: what Newton's method subtracts; it is halved until the objective does not
    get worse."""
    loss = objective(weights)
    for _ in range(ITERATIONS_MAX):
        change, length = step(weights), 1.0
        while (tried := objective(weights - length * change)) > loss and length > LENGTH_MIN:
            length = length / 2
        if tried >= loss - TOLERANCE:
            break
        weights, loss = weights - length * change, tried
    return weights


def _objective(x: Floats, labels: Classes, weights: Floats, penalty: Floats) -> float:
    return log_loss(x @ weights, labels) + float((penalty[:, np.newaxis] * weights**2).sum() / 2)


def _hessian(x: Floats, probabilities: Floats, penalty: Floats) -> Floats:
    size, classes = x.shape[1], probabilities.shape[1]
    found = np.zeros((classes, size, classes, size))
    for one in range(classes):
        for other in range(one, classes):
            weight = probabilities[:, one] * ((one == other) - probabilities[:, other])
            found[one, :, other] = found[other, :, one] = (x * weight[:, np.newaxis]).T @ x / len(x)
    flat = found.reshape(classes * size, classes * size)
    return flat + np.diag(np.tile(penalty, classes))


def fit_temperature(logits: Floats, labels: Classes) -> float:
    """The T > 0 for which softmax(logits / T) has the smallest log loss (Guo et al. 2017), by golden-section search on ln T."""
    low, high = LOG_TEMPERATURES
    ratio = (np.sqrt(5) - 1) / 2
    while high - low > 1e-4:
        left, right = high - ratio * (high - low), low + ratio * (high - low)
        if log_loss(logits / np.exp(left), labels) < log_loss(logits / np.exp(right), labels):
            high = right
        else:
            low = left
    return float(np.exp((low + high) / 2))
