"""A tape against itself, another seed, and modified copies."""

import dataclasses

import numpy as np
import pytest

from serl.agents.realism.benchmark import Benchmark, compare
from serl.agents.realism.tape import Tape
from tests.agents.realism.sample import generated


def mean_l1(found: Benchmark) -> float:
    return found.summary()["l1"]["mean"].value


def distorted(tape: Tape, share: float) -> Tape:
    """In a share of the tape, the ask side has three times the lots and the message five times the size."""
    random = np.random.default_rng(2)
    lots, qty = tape.book_lots.copy(), tape.qty_lots.copy()
    lots[random.random(len(lots)) < share, 1] *= 3
    qty[random.random(len(qty)) < share] *= 5
    return dataclasses.replace(tape, book_lots=lots, qty_lots=qty)


def shuffled(tape: Tape) -> Tape:
    """The same messages and books in random order, at the same times."""
    order = np.random.default_rng(2).permutation(len(tape))
    books = np.concatenate([[0], order + 1])
    age_ns = (tape.time_ns - tape.entered_ns)[order]
    return dataclasses.replace(
        tape, kind=tape.kind[order], side=tape.side[order], price_ticks=tape.price_ticks[order],
        qty_lots=tape.qty_lots[order], entered_ns=np.where(tape.entered_ns[order] < 0, -1, tape.time_ns - age_ns), first_cancel=tape.first_cancel[order],
        book_ticks=tape.book_ticks[books], book_lots=tape.book_lots[books],
    )  # fmt: skip


def test_a_tape_has_no_distance_to_itself() -> None:
    tape = generated(1)
    found = compare(tape, tape, bootstraps=10, seed=1)
    for comparison in (*found.scores, *found.conditional):
        wasserstein = comparison.distance.wasserstein
        assert comparison.distance.l1.value == 0, comparison.score.name
        assert wasserstein is not None and wasserstein.value == pytest.approx(0, abs=1e-12), comparison.score.name
        assert 0 < comparison.distance.l1.resampled.max() < 0.3, "resampling shows how much of a distance is noise"


def test_larger_distortions_score_worse() -> None:
    tape, other = generated(1), generated(2)
    values = [mean_l1(compare(other, distorted(tape, share), bootstraps=0, seed=1)) for share in (0.0, 0.2, 0.8)]
    assert values[0] + 0.01 < values[1] < values[2] - 0.05


def test_a_shuffled_tape_scores_worse() -> None:
    tape, other = generated(1), generated(2)
    fair, found = (compare(other, one, bootstraps=0, seed=1) for one in (tape, shuffled(tape)))
    by_name = [{c.score.name: c.distance.l1.value for c in (*b.scores, *b.conditional)} for b in (fair, found)]
    for name in ("OFI", "OFI before up", "OFI before stay", "cancel level, ask", "spread | volatility"):
        assert by_name[1][name] > by_name[0][name] + 0.03, name
    assert by_name[1]["spread"] == pytest.approx(by_name[0]["spread"], abs=0.01), (
        "scores of single messages do not change"
    )
    assert mean_l1(found) > mean_l1(fair) + 0.01


def test_the_seed_affects_only_the_intervals() -> None:
    tape, other = generated(1), generated(2)
    first, again, third = (compare(tape, other, bootstraps=20, seed=seed) for seed in (1, 1, 2))
    for one, two, three in zip(first.scores, again.scores, third.scores, strict=True):
        assert one.distance.l1.resampled.tolist() == two.distance.l1.resampled.tolist()
        assert one.distance.l1.value == three.distance.l1.value
    assert first.summary()["l1"]["mean"].interval != third.summary()["l1"]["mean"].interval
