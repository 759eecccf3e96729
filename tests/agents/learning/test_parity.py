"""Short form of `python -m benchmarks.parity`."""

import numpy as np
import pytest

from benchmarks.parity import curves, difference


@pytest.mark.long
def test_learns_as_stable_baselines_does() -> None:
    ours, theirs = (curve[:, -4:].mean(1, keepdims=True) for curve in curves(seeds=2, updates=16))
    gap, _ = difference(ours, theirs)
    assert min(ours.mean(), theirs.mean()) > -2.3, "both have learnt: an untrained policy gets -2.6"
    assert np.abs(gap[0]) < 0.25
