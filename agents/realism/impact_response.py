"""Impact response functions: how the mid moves after an event of each type.

R_type(l) = E[e_t (m_{t+l-1} - m_{t-1}) | event t is of the type], in ticks, over the events that change a price or a
quantity at the touch (Eisler, Bouchaud, Kockelkoren 2012; LOB-Bench). e is +1 for a buy: of a limit order its side, of a
market order the aggressor's, of a cancellation the opposite of the cancelled order's.
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
"""Of consecutive events, which are resampled whole."""


def log_lags(largest: int = LAG_MAX, count: int = LAG_COUNT) -> Ints:
    """`count` different lags from 1 to `largest`, as evenly spaced in the logarithm as whole numbers can be."""
    lags = [1]
    for step in range(1, count):
        lags.append(max(lags[-1] + 1, round(largest ** (step / (count - 1)))))
    return np.array(lags, np.int64)


@dataclass(frozen=True)
class Response:
    """Responses of the six event types of one tape."""

    lags: Ints
    """[lag] in events."""
    mean_ticks: Floats
    """[type, lag], NaN where there is no such event."""
    low_ticks: Floats
    """[type, lag] 95 % interval."""
    high_ticks: Floats
    counts: Ints
    """[type] events."""


def touch_events(tape: Tape) -> tuple[Ints, Bools]:
    """(places of messages that change the touch, whether they change one of its prices); two-sided books only."""
    prices = (np.diff(tape.bid) != 0) | (np.diff(tape.ask) != 0)
    quantities = (np.diff(tape.book_lots[:, :, 0], axis=0) != 0).any(axis=1)
    both = tape.two_sided[1:] & tape.two_sided[:-1]
    places = np.flatnonzero((prices | quantities) & both)
    return places, prices[places]


def response(tape: Tape, bootstraps: int, random: np.random.Generator, lags: Ints | None = None) -> Response:
    """The responses of a tape, with block bootstrap bands (none without bootstraps: then they are NaN)."""
    lags = log_lags() if lags is None else lags
    places, changed = touch_events(tape)
    kind = tape.kind[places]
    sign = np.where(kind == CANCEL, -1, 1) * tape.sign[places]
    before, after = tape.mid[:-1][places], tape.mid[1:][places]
    block = np.arange(len(places)) * BLOCKS // max(1, len(places))
    draws = block_draws(BLOCKS, bootstraps, random)
    shape = (len(EVENT_TYPES), len(lags))
    mean, low, high = np.full(shape, np.nan), np.full(shape, np.nan), np.full(shape, np.nan)
    counts = np.zeros(len(EVENT_TYPES), np.int64)
    for number in range(len(EVENT_TYPES)):
        chosen = (kind == KINDS[number // 2][0]) & (changed == (number % 2 == 1))
        counts[number] = chosen.sum()
        for column, lag in enumerate(lags):
            at = np.flatnonzero(chosen[: max(0, len(places) - lag + 1)])
            if not len(at):
                continue
            moves = sign[at] * (after[at + lag - 1] - before[at])
            mean[number, column] = moves.mean()
            sums = np.bincount(block[at], weights=moves, minlength=BLOCKS)
            drawn = _ratio(draws @ sums, draws @ np.bincount(block[at], minlength=BLOCKS).astype(np.float64))
            if len(drawn):
                low[number, column], high[number, column] = np.quantile(drawn, [0.025, 0.975])
    return Response(lags, mean, low, high, counts)


def _ratio(sums: Floats, counts: Floats) -> Floats:
    return np.asarray(sums[counts > 0] / counts[counts > 0])


def response_distance(real: Response, simulated: Response) -> Floats:
    """[type] mean over lags of |R_real - R_simulated| in ticks; NaN where one of them has no such event."""
    return np.asarray(np.abs(real.mean_ticks - simulated.mean_ticks).mean(axis=1))
