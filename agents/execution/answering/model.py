"""How far a day gives way: the impact coefficient, fitted on the day itself or from the square-root law, and the memory."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from serl.agents.execution.answering.memory import ANSWER
from serl.agents.execution.answering.record import HistoryRecord, record_history
from serl.agents.execution.answering.rules import Answers
from serl.agents.impact_memory import EXPONENT, PREFACTOR, REFERENCE_S, mean_memory, memory_weights
from serl.agents.students_t import student
from serl.exchange.errors import ConfigError
from serl.exchange.records import Rows
from serl.history.day import Day

FITTED, SQUARE_ROOT, NONE = "fitted", "square_root", "none"
SECOND_NS = 1_000_000_000
WINDOWS_S = (60.0, REFERENCE_S)
OPENING_S = 60.0
"""Time at the start that the fit leaves out, because the book of the first minute is not yet representative."""
WINDOWS_MIN = 20


@dataclass(frozen=True)
class CoefficientFit:
    """A regression of the change of the mid over windows on sign(n) sqrt|n|, where n is the lots that takers bought minus sold in the window."""

    window_s: float
    windows: int
    ticks_per_root_lot: float
    low: float
    """Lower end of the 95 % interval, robust to unequal variances: HC3 (MacKinnon and White 1985) with Student's quantile. White's (1980) would contain
    the truth in 78 to 86 % of cases with 20 windows."""
    high: float
    r2: float


@dataclass(frozen=True)
class AnsweringDay:
    """A day of one symbol that gives way, with its coefficients."""

    record: HistoryRecord
    fits: tuple[CoefficientFit, ...]
    square_root_ticks: float
    """Y sigma_D / sqrt(V_D), ticks per root of a lot, with Y = PREFACTOR."""
    coefficient: float
    """The chosen one of the two coefficients, ticks per root of a lot worked evenly over REFERENCE_S."""
    weights: Any
    bound_ticks: int
    """Limit of the absolute shift: half the lowest bid of the day."""

    def new_state(self) -> Any:
        """A (1,) ANSWER row for a book in which no live participant has traded."""
        answer = np.zeros(1, ANSWER)
        answer["weights"], answer["bound_ticks"] = self.weights, self.bound_ticks
        answer["coefficient"] = self.coefficient / np.sqrt(mean_memory(self.weights, REFERENCE_S))
        return answer

    def describe(self) -> str:
        """Describes both coefficients in lines of text."""
        lines = [
            f"fitted over {fit.window_s:g} s: {fit.ticks_per_root_lot:.3f} [{fit.low:.3f}, {fit.high:.3f}] ticks per root lot, R2 {fit.r2:.2f}, "
            f"{fit.windows:,} windows"
            for fit in self.fits
        ]
        lines.append(f"square-root law, Y = {PREFACTOR:g}: {self.square_root_ticks:.3f} ticks per root lot")
        return "\n".join([*lines, f"used: {self.coefficient:.3f}"])


def answering_day(commands: Rows, coefficient: str = FITTED, exponent: float = EXPONENT) -> AnsweringDay:
    """Executes the COMMAND rows of a day of one symbol undisturbed, and fits the impact.

    coefficient: FITTED or SQUARE_ROOT. exponent: exponent of the memory. Raises ConfigError if nothing trades, the mid stands still from
    minute to minute, or the fitted coefficient is not positive.
    """
    record = record_history(commands)
    mids = _known_mids(record)
    fits = tuple(fit for window_s in WINDOWS_S if (fit := _fit(record, mids, window_s)) is not None)
    traded = int(np.abs(record.taken_lots).sum())
    if traded == 0:
        raise ConfigError("answering: expected a day with trades, got none; give another day")
    minutes = _mids_at(mids, _grid(record, WINDOWS_S[0]))
    root_law = PREFACTOR * float(np.sqrt(np.sum(np.diff(minutes) ** 2) / traded))
    reference = [fit.ticks_per_root_lot for fit in fits if fit.window_s == REFERENCE_S]
    if root_law == 0:
        raise ConfigError(
            "answering: expected a day whose mid moves from minute to minute, got one that is too short or whose mid stands still; give another day"
        )
    used = root_law if coefficient == SQUARE_ROOT else max(reference, default=0.0)
    if not used > 0:
        raise ConfigError(
            f"answering: expected a day of {WINDOWS_MIN * REFERENCE_S / 60:g} minutes or more whose mid follows its trades, got "
            f"{used:.3f} ticks per root lot from {len(reference)} fits over {REFERENCE_S:g} s; give another day, or the coefficient {SQUARE_ROOT}"
        )
    bids = record.touch_ticks[:, 0]
    bound_ticks = int(bids[bids > 0].min()) // 2
    return AnsweringDay(record, fits, root_law, used, memory_weights(exponent), bound_ticks)


def answering_days(days: Sequence[Day], answers: str) -> list[AnsweringDay] | None:
    """Applies `answering_day` with FITTED or SQUARE_ROOT to each day; returns None for NONE. Raises ConfigError as `answering_day`."""
    return None if answers == NONE else [answering_day(day.commands, answers) for day in days]


def _known_mids(record: HistoryRecord) -> tuple[Any, Any]:
    known = np.isfinite(record.mid_ticks)
    if not known.any():
        raise ConfigError("answering: expected a day with a bid and an ask, got none; give another day")
    return record.time_ns[known], record.mid_ticks[known]


def _grid(record: HistoryRecord, window_s: float) -> Any:
    start_ns = int(record.time_ns[0]) + round(OPENING_S * SECOND_NS)
    return np.arange(start_ns, int(record.time_ns[-1]) + 1, round(window_s * SECOND_NS))


def _mids_at(mids: tuple[Any, Any], times_ns: Any) -> Any:
    """The last known mid before each time, or the first known mid if there is none before."""
    return mids[1][np.maximum(np.searchsorted(mids[0], times_ns) - 1, 0)]


def _fit(record: HistoryRecord, mids: tuple[Any, Any], window_s: float) -> CoefficientFit | None:
    """Fits by least squares with an intercept; returns None with fewer than WINDOWS_MIN windows or without variation."""
    grid = _grid(record, window_s)
    taken = np.concatenate([[0], np.cumsum(record.taken_lots)])[np.searchsorted(record.time_ns, grid)]
    lots, moved = np.diff(taken), np.diff(_mids_at(mids, grid))
    root = np.sign(lots) * np.sqrt(np.abs(lots))
    if len(root) < WINDOWS_MIN or root.std() == 0 or moved.std() == 0:
        return None
    root, moved = root - root.mean(), moved - moved.mean()
    slope = float(root @ moved / (root @ root))
    residual = moved - slope * root
    free = (
        1 - 1 / len(root) - root**2 / (root @ root)
    )  # 1 - leverage; 0 if one window has all the variation: no interval
    scores = root * residual / np.where(free > 1e-9, free, np.nan)
    error = float(np.sqrt(np.sum(scores**2)) / (root @ root))
    half = student(len(root) - 2) * error
    r2 = 1 - float(residual @ residual / (moved @ moved))
    return CoefficientFit(window_s, len(root), slope, slope - half, slope + half, r2)


def compiled_answers(days: Sequence[AnsweringDay], books: int) -> Answers:
    """The input of the compiled rules for books that can replay any of the days. Command i of day d has index i + the commands of earlier days."""
    records = [day.record for day in days]
    ends = np.cumsum([0] + [len(record.order_ids) for record in records])
    starts = [record.starts[:-1] + end for record, end in zip(records, ends[:-1], strict=True)]
    return Answers(
        np.zeros(books, ANSWER), np.concatenate([*starts, ends[-1:]]),
        np.concatenate([record.order_ids for record in records]), np.concatenate([record.leaves_lots for record in records]),
        np.concatenate([record.taken_lots for record in records]), np.concatenate([record.worst_ticks for record in records]),
    )  # fmt: skip
