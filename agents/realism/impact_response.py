"""Impact response functions: the mean move of the mid after an event of each type.

R_type(l) = E[e_t (m_{t+l-1} - m_{t-1}) | event t is of the type], in ticks, over the events that change a price or a
quantity at the touch (Eisler, Bouchaud, Kockelkoren 2012; LOB-Bench). e is +1 for a buy and -1 for a sell; the side is that of
a limit order, the aggressor's of a market order, and the opposite of the cancelled order's side for a cancellation.
"""

from dataclasses import dataclass

import numpy as np

from serl.agents.realism.messages import CANCEL, LIMIT, MARKET
from serl.agents.realism.resample import block_draws
from serl.agents.realism.tape import Bools, Floats, Ints, Tape

KINDS = ((MARKET, "market"), (LIMIT, "limit"), (CANCEL, "cancel"))
EVENT_TYPES = tuple(f"{name}, touch {change}" for _, name in KINDS for change in ("unchanged", "changed"))
LAG_MAX, LAG_COUNT = 200, 21
BLOCKS = 50
"""Number of blocks of consecutive events; the bootstrap resamples whole blocks."""


def log_lags(largest: int = LAG_MAX, count: int = LAG_COUNT) -> Ints:
    """`count` distinct integer lags from 1 to `largest`, approximately evenly spaced in the logarithm."""
    lags = [1]
    for step in range(1, count):
        lags.append(max(lags[-1] + 1, round(largest ** (step / (count - 1)))))
    return np.array(lags, np.int64)


@dataclass(frozen=True)
class ImpactResponse:
    """Responses to the six event types of one tape."""

    lags: Ints
    """[lag] in events."""
    mean_ticks: Floats
    """[type, lag] mean response in ticks; NaN where there is no such event."""
    low_ticks: Floats
    """[type, lag] lower bound of the 95 % interval."""
    high_ticks: Floats
    counts: Ints
    """[type] number of events."""


def touch_events(tape: Tape) -> tuple[Ints, Bools]:
    """(indices of messages that change the touch, whether they change one of its prices); only for two-sided books."""
    prices = (np.diff(tape.bid) != 0) | (np.diff(tape.ask) != 0)
    quantities = (np.diff(tape.book_lots[:, :, 0], axis=0) != 0).any(axis=1)
    both = tape.two_sided[1:] & tape.two_sided[:-1]
    indices = np.flatnonzero((prices | quantities) & both)
    return indices, prices[indices]


def impact_response(
    tape: Tape, bootstraps: int, random: np.random.Generator, lags: Ints | None = None
) -> ImpactResponse:
    """Measures the responses of a tape, with block bootstrap bands (NaN without bootstraps)."""
    lags = log_lags() if lags is None else lags
    indices, changed = touch_events(tape)
    kind = tape.kind[indices]
    sign = np.where(kind == CANCEL, -1, 1) * tape.sign[indices]
    before, after = tape.mid[:-1][indices], tape.mid[1:][indices]
    block = np.arange(len(indices)) * BLOCKS // max(1, len(indices))
    draws = block_draws(BLOCKS, bootstraps, random)
    shape = (len(EVENT_TYPES), len(lags))
    mean, low, high = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    counts = np.zeros(len(EVENT_TYPES), np.int64)
    for number in range(len(EVENT_TYPES)):
        chosen = (kind == KINDS[number // 2][0]) & (changed == (number % 2 == 1))
        counts[number] = chosen.sum()
        for column, lag in enumerate(lags):
            events = np.flatnonzero(chosen[: max(0, len(indices) - lag + 1)])
            if not len(events):
                continue
            moves = sign[events] * (after[events + lag - 1] - before[events])
            mean[number, column] = moves.mean()
            sums = np.bincount(block[events], weights=moves, minlength=BLOCKS)
            resampled = _ratio(draws @ sums, draws @ np.bincount(block[events], minlength=BLOCKS).astype(np.float64))
            if len(resampled):
                low[number, column], high[number, column] = np.quantile(resampled, [0.025, 0.975])
    return ImpactResponse(lags, mean, low, high, counts)


def _ratio(sums: Floats, counts: Floats) -> Floats:
    return np.asarray(sums[counts > 0] / counts[counts > 0])


def response_distance(real: ImpactResponse, simulated: ImpactResponse) -> Floats:
    """[type] mean over lags of |R_real - R_simulated| in ticks; NaN where either has no such event."""
    return np.asarray(np.abs(real.mean_ticks - simulated.mean_ticks).mean(axis=1))
