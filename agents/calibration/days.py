"""The days of a calibration: fitted days, and test days that are only scored."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from serl.agents.calibration.caveats import TOUCH_ONLY, TOUCH_ONLY_OPTION
from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.measure import TRADING_HOURS, check_window
from serl.agents.calibration.objective import Window
from serl.agents.realism.days import day_origin, window_text
from serl.agents.realism.errors import RealismError
from serl.agents.realism.tape import build_tape, check_levels
from serl.history.day import Day, SymbolReference, select_symbol

LEVELS_MAX = 10
"""Maximum number of levels per side."""
COVERED_MIN = 0.9
"""Smallest share of the hours between their first and last message."""


@dataclass(frozen=True)
class NamedDay:
    """A day with the name of its file, for errors and results."""

    name: str
    day: Day


@dataclass(frozen=True)
class CalibrationDay:
    """The hours of one symbol of a day."""

    name: str
    origin: str
    day: Day
    """The day with only this symbol."""
    train: Window | None
    """None for a test day, which takes no part in the fit."""
    held_out: Window

    @property
    def symbol(self) -> SymbolReference:
        """The symbol's reference data."""
        return self.day.reference.symbols[0]


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    """Names the day in errors."""
    try:
        yield
    except (CalibrationError, RealismError) as error:
        raise type(error)(f"{name}: {error}") from None


def cut_days(
    fitted: Sequence[NamedDay], tests: Sequence[NamedDay], train: tuple[int, int], held_out: tuple[int, int], *,
    symbol: str | None, levels: int, touch_only: bool | None,
) -> list[CalibrationDay]:  # fmt: skip
    """Cuts the fitted days, then the test days. With levels 0, all have as many levels as the fitted day that shows the fewest.

    touch_only: whether a day that shows only the touch is fitted; None: it is not, and there is no option for it.

    Raises CalibrationError if the hours overlap or populations do not trade in them, a day is given twice, tick or lot sizes differ, a day shows only the touch, a test day shows fewer
    levels than the fitted days, or a training window has too little data; also the errors of build_tape and Tape.window.
    """
    _check_hours(train, held_out)
    _check_distinct([*fitted, *tests])
    shown = min(_levels_shown(one.day, levels) for one in fitted)
    if shown == 1 and not touch_only:
        alone = next(one.name for one in fitted if _levels_shown(one.day, levels) == 1)
        option = "" if touch_only is None else TOUCH_ONLY_OPTION
        raise CalibrationError(f"{alone}: {TOUCH_ONLY}{option}")
    for one in tests:
        if _levels_shown(one.day, levels) < shown:
            raise CalibrationError(
                f"{one.name}: expected a test day that shows {shown} levels a side like the days of the fit, got "
                f"{_levels_shown(one.day, levels)}; give another test day, or fewer --levels"
            )
    days = [_cut(one, symbol, shown, train, held_out) for one in fitted]
    days += [_cut(one, symbol, shown, None, held_out) for one in tests]
    for cut in days[1:]:
        _check_sizes(days[0], cut)
    return days


def _cut(
    one: NamedDay, symbol: str | None, levels: int, train: tuple[int, int] | None, held_out: tuple[int, int]
) -> CalibrationDay:
    with _errors_of(one.name):
        check_levels(one.day, levels)
        tape = build_tape(one.day, levels, symbol)
        training = None if train is None else Window(tape.window(*train), *train)
        scored = Window(tape.window(*held_out), *held_out)
        if training is not None:
            check_window(training.tape, training.start_ns, training.end_ns)
            _check_covered(training)
        _check_covered(scored)
    return CalibrationDay(one.name, day_origin(one.day), select_symbol(one.day, tape.symbol), training, scored)


def _check_covered(window: Window) -> None:
    """Checks that the day does not begin or end within the hours: what is missing would be measured as silence."""
    first_ns, last_ns = window.tape.span()
    if last_ns - first_ns < COVERED_MIN * (window.end_ns - window.start_ns):
        raise CalibrationError(
            f"expected messages in all of {window_text((window.start_ns, window.end_ns))}, got some in {window_text((first_ns, last_ns))} only; "
            "change --train or --score, or leave the day out"
        )


def _levels_shown(day: Day, levels: int) -> int:
    return min(LEVELS_MAX, levels or day.reference.levels or LEVELS_MAX)


def _check_hours(train: tuple[int, int], held_out: tuple[int, int]) -> None:
    """Checks that populations trade in the hours, and that they do not overlap: scores on hours that were trained on would say nothing about other
    hours."""
    for hours in (train, held_out):
        if hours[0] < TRADING_HOURS[0] or hours[1] > TRADING_HOURS[1]:
            raise CalibrationError(
                f"expected hours within {window_text(TRADING_HOURS)}, in which populations trade, got {window_text(hours)}; change --train or --score"
            )
    if train[0] < held_out[1] and held_out[0] < train[1]:
        raise CalibrationError(
            f"expected separate windows for training and scoring, got {window_text(train)} and {window_text(held_out)}, which "
            "overlap; change --train or --score"
        )


def _check_distinct(days: Sequence[NamedDay]) -> None:
    """Checks that no day is given twice: it would count double, or be tested on the data to which the population was fitted."""
    seen: dict[bytes, str] = {}
    for one in days:
        content = one.day.digest()
        if content in seen:
            raise CalibrationError(
                f"{one.name}: expected each day once, got the same day as {seen[content]}; leave one out"
            )
        seen[content] = one.name


def _check_sizes(first: CalibrationDay, other: CalibrationDay) -> None:
    if name := first.symbol.differing_size(other.symbol):
        expected, found = getattr(first.symbol, name), getattr(other.symbol, name)
        raise CalibrationError(
            f"{other.name}: expected a {name.replace('_', ' ')} of {expected} as in {first.name}, got {found}; "
            "calibrate days of one size together"
        )
