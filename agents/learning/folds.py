"""Folds of the training days: train on all but one, score on that one. Validation and test days are not used."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path

from serl.agents.execution.data import TRAIN
from serl.agents.execution.environment.episodes import Hours
from serl.agents.learning.market_config import MarketConfig
from serl.exchange.errors import ConfigError

FOLD = "fold"
"""The part of the data that `MarketConfig.fold` leaves out of training."""


def _fold_of(part: str, config: MarketConfig) -> int | None:
    """The fold that applies to a part; None for a part without folds. Raises ConfigError for the part `fold` without a fold."""
    if part == FOLD and config.fold is None:
        raise ConfigError("part: expected `fold` only with a fold, got none; set market.fold")
    if config.fold is not None and config.fold >= config.folds:
        raise ConfigError(f"market.fold: expected 0 to {config.folds - 1}, got {config.fold}; set market.folds")
    return config.fold if part in (TRAIN, FOLD) else None


def fold_of_hours(hours: Sequence[Hours], dates: Sequence[int], part: str, config: MarketConfig) -> Sequence[Hours]:
    """The hours of a part, given all its hours (for `fold`, those of training) and the date of each.

    Folds are runs of consecutive dates, so that neighbouring days are mostly in the same fold. If there are fewer dates than folds, each stretch is
    cut into as many pieces of equal length as there are folds.
    """
    fold = _fold_of(part, config)
    if fold is None:
        return hours
    ranks = {date: rank for rank, date in enumerate(sorted(set(dates)))}
    if len(ranks) >= config.folds:
        placed = [ranks[date] * config.folds // len(ranks) for date in dates]
        pieces = list(zip(hours, placed, strict=True))
    else:
        pieces = [piece for stretch in hours for piece in _pieces(stretch, config)]
    return [piece for piece, number in pieces if (number == fold) == (part == FOLD)]


def scored_data(day: Path, part: str, config: MarketConfig) -> list[Path]:
    """The files to score a part on: all training data for a fold, because a fold's number means the same hours only among the same files; `day` for
    any other part. Raises ConfigError for a fold if `day` is not among the training data."""
    if part != FOLD:
        return [day]
    if day.resolve() not in {path.resolve() for path in config.data}:
        raise ConfigError(
            f"day: expected one of market.data, whose folds are scored, got {day} and {', '.join(map(str, config.data)) or 'no data'}; add it to "
            "market.data, or set folds: 0"
        )
    return list(config.data)


def _pieces(hours: Hours, config: MarketConfig) -> list[tuple[Hours, int]]:
    """Cuts a stretch into one piece per fold; returns each with the number of its fold. Raises ConfigError if a piece is too short for an order."""
    length_ns = (hours.end_ns - hours.start_ns) // config.folds
    if length_ns < config.duration_s * 1e9:
        raise ConfigError(
            f"folds: expected pieces of at least {config.duration_s:g} s, the duration of an order, got {length_ns / 1e9:g} s; use more days, "
            "fewer folds, or folds: 0"
        )
    starts = [hours.start_ns + number * length_ns for number in range(config.folds)]
    return [
        (dataclasses.replace(hours, start_ns=start, end_ns=start + length_ns), number)
        for number, start in enumerate(starts)
    ]


def fold_seeds(part: str, config: MarketConfig) -> Sequence[int]:
    """`simulated_days` numbers of simulated days: those in the fold or, for training, outside it. There are always more days to simulate."""
    fold, count = _fold_of(part, config), config.simulated_days
    if fold is None:
        return range(count)
    if part == FOLD:
        return range(fold, fold + count * config.folds, config.folds)
    return [seed for seed in range(2 * count + config.folds) if seed % config.folds != fold][:count]
