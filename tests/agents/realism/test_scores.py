"""Every score of five messages, computed by hand."""

import math

import numpy as np
import pytest

from serl.agents.realism import scores
from serl.agents.realism.scores import CONDITIONAL_SCORES, SCORES
from tests.agents.realism.sample import five_messages, generated

BY_HAND = {
    "spread": [1, 1, 3, 4, 4],
    "touch imbalance": [-5 / 15, -10 / 20, -20 / 30, -15 / 35, -15 / 35],
    "log inter-arrival time": [0, math.log(1e-9), math.log(3), math.log(1000)],
    "log time to cancel": [math.log(0.004)],
    "ask volume at touch": [10, 15, 25, 25, 25],
    "bid volume at touch": [5, 5, 5, 10, 10],
    "ask volume": [40, 45, 25, 25, 25],
    "bid volume": [15, 15, 15, 30, 25],
    "limit depth, ask": [0.5],
    "limit depth, bid": [0.5],
    "cancel depth, ask": [],
    "cancel depth, bid": [1, 3],
    "limit level, ask": [1],
    "limit level, bid": [1],
    "cancel level, ask": [],
    "cancel level, bid": [1, 2],
    "volume per minute": [1200],
    "OFI": [],
    "OFI before up": [],
    "OFI before stay": [],
    "OFI before down": [],
}


def test_there_are_21_scores() -> None:
    assert [score.name for score in SCORES] == list(BY_HAND)
    assert len(SCORES) == 21


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
def test_by_hand(score: scores.Score) -> None:
    assert score.values(five_messages()) == pytest.approx(BY_HAND[score.name])


def test_order_flow_imbalance_by_hand() -> None:
    tape = five_messages()
    assert scores.ofi(tape).tolist() == [5, -5, 15, -5, 0]
    assert scores.mean_ofi(tape, 2)[1:].tolist() == [0, 5, 5, -2.5]
    assert np.isnan(scores.mean_ofi(tape, 2)[0])
    moves = {move: scores.ofi_before(move, 2)(tape).tolist() for move in (1, 0, -1)}
    assert moves == {1: [0], 0: [5], -1: [5]}, "the mid after the messages: 100.5, 100.5, 101.5, 101, 101"


def test_conditions_by_hand() -> None:
    tape = five_messages()
    assert scores.hour(tape).tolist() == [10] * 5
    step = math.log(101 / 100.5)  # all in the first of 600 steps
    assert scores.volatility(tape) == pytest.approx([step * math.sqrt(1 / 600 - 1 / 600**2)] * 5)
    for score in CONDITIONAL_SCORES:
        assert len(score.values(tape)) == len(score.condition(tape)) == 5


def test_long_tapes_have_all_scores() -> None:
    tape = generated(5)
    for score in SCORES:
        values = score.values(tape)
        assert len(values) > 50 and np.isfinite(values).all(), score.name
    kinds = sum(len(score.values(tape)) for score in SCORES if "depth" in score.name)
    assert kinds == (tape.kind != 1).sum()
    levels = sum(len(score.values(tape)) for score in SCORES if "level" in score.name)
    assert levels == kinds, "every order and cancellation has a level"
    assert len(scores.ofi_mean(tape)) == len(tape) - 99
    assert sum(len(scores.ofi_before(move)(tape)) for move in (-1, 0, 1)) == len(tape) - 100
