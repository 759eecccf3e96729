"""Uniform specifications: valid, and as probable as they are said to be."""

import math
from collections import Counter

import numpy as np
import pytest

from serl.researcher.modules import specs
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import uniform


@pytest.mark.parametrize("kind", list(Kind))
def test_specifications_are_of_their_schema(kind: Kind) -> None:
    rng = np.random.default_rng(0)
    texts = {uniform.draw(kind, rng) for _ in range(50)}
    assert len(texts) > 25
    for text in texts:
        specs.parse(kind, text)
        assert uniform.log_p(kind, text) < 0


def test_frequencies_are_the_probabilities() -> None:
    rng, n = np.random.default_rng(1), 4000
    counts = Counter(
        text for text in (uniform.draw(Kind.COMMUNICATE, rng) for _ in range(n)) if text.count("gain") == 1
    )
    (text, _), total = counts.most_common(1)[0], counts.total()
    assert uniform.log_p(Kind.COMMUNICATE, text) == pytest.approx(math.log(1 / 4 / (9 * 6 * 3)))
    assert total / n == pytest.approx(0.25, abs=0.03), "a quarter has one channel"
