"""`serl signals publish`."""

import json
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import click

from serl.agents.signals.errors import SignalError
from serl.agents.signals.forecaster_file import read_forecaster
from serl.agents.signals.message import Forecast
from serl.agents.signals.publish import Publication, check_rate, publish_to
from serl.clients.blocking import Exchange, connect
from serl.exchange.config import time_of_day_ns


def publish_forecasts(
    file: Path, endpoint: str, symbol: str | None, every_s: float, begin: str | None, until: str | None, model: str | None, as_lines: bool, name: str,
    token: str, curve: Path | None,
) -> None:  # fmt: skip
    """Publishes or prints forecasts until the given time or an interrupt, then prints a summary."""
    forecaster = read_forecaster(file)
    from_ns, until_ns = (
        None if text is None else time_of_day_ns(text, option)
        for option, text in (("--from", begin), ("--until", until))
    )
    with connect(endpoint, name, token, curve=curve) as client:
        followed = forecaster.symbol if symbol is None else symbol
        _check_symbol(client, followed)
        forecaster.require_sizes(client.instrument(followed), followed)
        lockstep = client.core.lockstep
        publication = Publication(client, forecaster, followed, every_s, model, file.name, curve is not None)
        midnight_ns = int(client.session.clock[3])
        run = partial(
            publication.run, from_ns=0 if from_ns is None else midnight_ns + from_ns,
            until_ns=None if until_ns is None else midnight_ns + until_ns,
        )  # fmt: skip
        if not as_lines:
            check_rate(client, every_s)
        forecasts = run(lambda _: True) if as_lines else publish_to(endpoint, token, curve, lockstep, run)
        try:
            _follow(forecasts, as_lines)
        finally:
            click.echo(_summary(publication, as_lines), err=True)


def _follow(forecasts: Iterator[Forecast], as_lines: bool) -> None:
    for forecast in forecasts:
        if as_lines:
            click.echo(json.dumps(forecast.to_json()))
            sys.stdout.flush()


def _check_symbol(client: Exchange, symbol: str) -> None:
    names = [one.name for one in client.session.instruments.values()]
    if symbol not in names:
        raise SignalError(
            f"--symbol: expected one of {', '.join(names)[:200]}, got {symbol[:80]}; give one of the exchange's"
        )


def _summary(publication: Publication, as_lines: bool) -> str:
    live = publication.forecaster
    said = f"{'printed' if as_lines else 'published'} {publication.published:,} forecasts"
    if publication.throttled:
        said += f"; {publication.throttled:,} were not accepted (news_per_s_max)"
    if publication.missed:
        said += f"; {publication.missed:,} times of 100 ms were missed"
    if live.observed:
        said += f"; processor time {1e3 * live.seconds / live.observed:.2f} ms per 100 ms of the market"
    return said
