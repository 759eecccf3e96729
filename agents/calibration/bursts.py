"""How messages cluster within seconds: short waits follow short waits, and a trade shortens waits and brings more trades for some messages."""

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np

from serl.agents.realism.messages import MARKET
from serl.agents.realism.tape import Bools, Floats, Ints, Tape
from serl.agents.traders.flow_tables import KINDS, RECENT_TRADES_DECAY

LAGS = np.arange(1, 11)
TAIL_LAG = 50
"""The correlation of waits at this lag is attributed to the slowly varying activity."""
EXCESS_MIN, SCORE_MIN = 1e-3, -3.0


@dataclass(frozen=True)
class Bursts:
    """How messages cluster. Waits are compared by normal score: the standard normal quantile of their rank among waits between the same two kinds."""

    share: float
    """Share of the score's variance with a memory, beyond trades and activity."""
    events: float
    """Length of this memory, in events."""
    score_quiet: float
    """Mean score without a recent trade; the mean over all waits is 0."""
    score_by_trade: float
    """Change of the mean score per recent trade; negative, because waits become shorter."""
    market_quiet: float
    """Share of market orders without a recent trade, relative to the mean; after limit orders and cancellations."""
    market_by_trade: float
    """Increase of this share per recent trade, relative to the mean."""


def measure_bursts(windows: Sequence[Tape]) -> Bursts:
    """Measures bursts over all windows."""
    kinds = [window.kind.astype(np.int64) for window in windows]
    recents = [recent_trades(kind == MARKET) for kind in kinds]
    scores = _normal_scores(windows, kinds)
    before_wait, all_scores = np.concatenate([recent[:-1] for recent in recents]), np.concatenate(scores)
    slope = min(0.0, max(SCORE_MIN, _line(before_wait, all_scores)[1]))
    start = float(all_scores.mean()) - slope * float(before_wait.mean())
    left = [score - start - slope * recent[:-1] for score, recent in zip(scores, recents, strict=True)]
    share, events = _memory(left)
    after_other = [kind[:-1] != MARKET for kind in kinds]
    recent = np.concatenate([one[1:][after] for one, after in zip(recents, after_other, strict=True)])
    takes = np.concatenate([kind[1:][after] == MARKET for kind, after in zip(kinds, after_other, strict=True)])
    quiet, each = _line(recent, takes.astype(np.float64))
    mean = max(1e-9, float(takes.mean()))
    return Bursts(share, events, start, slope, max(0.0, quiet / mean), max(0.0, each / mean))


def recent_trades(trades: Bools) -> Floats:
    """[message] number of trades before each message, each weighted by RECENT_TRADES_DECAY to the power of the number of messages in between."""
    recent = np.zeros(len(trades))
    for place in np.flatnonzero(trades):
        # after a hundred messages, the weight of a trade is below 1e-7
        until = min(len(trades), place + 101)
        recent[place + 1 : until] += RECENT_TRADES_DECAY ** np.arange(until - place - 1)
    return recent


def _normal_scores(windows: Sequence[Tape], kinds: list[Ints]) -> list[Floats]:
    """[day][message except the last] score of the wait after the message. Ties are ranked in order of time."""
    waits = np.concatenate([np.diff(window.time_ns) for window in windows])
    pairs = np.concatenate([KINDS * kind[:-1] + kind[1:] for kind in kinds])
    scores, quantile = np.zeros(len(waits)), NormalDist().inv_cdf
    grid = np.array([quantile((point + 0.5) / 1024) for point in range(1024)])
    for pair in np.unique(pairs):
        chosen = np.flatnonzero(pairs == pair)
        rank = np.empty(len(chosen))
        rank[np.argsort(waits[chosen], kind="stable")] = np.arange(len(chosen))
        scores[chosen] = grid[(1024 * (rank + 0.5) / len(chosen)).astype(np.int64)]
    return np.split(scores, np.cumsum([len(kind) - 1 for kind in kinds])[:-1])


def _line(x: Floats, y: Floats) -> tuple[float, float]:
    """(intercept, slope) by least squares; slope 0 if x does not vary."""
    spread = float(x.var())
    slope = float(np.mean((x - x.mean()) * (y - y.mean()))) / spread if spread > 0 else 0.0
    return float(y.mean()) - slope * float(x.mean()), slope


def _memory(scores: list[Floats]) -> tuple[float, float]:
    """(share, events) of share exp(-lag / events), fitted on logarithms to the autocorrelations at LAGS in excess of that at TAIL_LAG."""
    tail = _autocorrelation(scores, TAIL_LAG)
    excess = np.array([max(EXCESS_MIN, _autocorrelation(scores, int(lag)) - tail) for lag in LAGS])
    start, slope = _line(LAGS.astype(np.float64), np.log(excess))
    return min(0.9, float(np.exp(start))), min(float(TAIL_LAG), -1.0 / min(-1.0 / TAIL_LAG, slope))


def _autocorrelation(scores: list[Floats], lag: int) -> float:
    """The autocorrelation at a lag, pooled over the days."""
    pairs = [(score[lag:], score[:-lag]) for score in scores if len(score) > lag]
    products = sum(float(late @ early) for late, early in pairs)
    squares = sum(0.5 * float(late @ late + early @ early) for late, early in pairs)
    return products / squares if squares > 0 else 0.0
