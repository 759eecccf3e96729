"""`serl signals`: trains, tests and publishes forecasts."""

from pathlib import Path

import click

from serl.exchange.cli_login import curve_option, token_options
from serl.exchange.cli_request import DEFAULT_ENDPOINT

MODEL_NAMES = ("logistic", "network", "attention")
"""A copy of `forecaster.MODELS`, so that --help does not import it; a test compares them."""
DAYS = click.argument("days", metavar="DAY...", nargs=-1, required=True, type=click.Path(path_type=Path))


@click.group(epilog="Example: serl signals train AMZN.zip -o amzn.signals && serl signals test amzn.signals AMZN.zip")
def signals() -> None:
    """Forecasts from the order book: the mid, the volume, fills."""


@signals.command(epilog="Example: serl signals train AMZN.zip -o amzn.signals")
@DAYS
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True, help="The forecaster to write (JSON).")
@click.option("--hours", default="10:00-13:00", show_default=True, help="Training hours; nothing later is used.")
@click.option(
    "--horizons", default="1,10,60", show_default=True, help="Seconds, multiples of 0.1, separated by commas."
)
@click.option("--symbol", help="Symbol of all days; by default the first of the first day.")
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed of the networks' training.")
def train(days: tuple[Path, ...], output: Path, hours: str, horizons: str, symbol: str | None, seed: int) -> None:
    """Train forecasts on the training hours of one or more days (day files or LOBSTER zip files): the mid's trend (down, flat, up), the volume, and
    whether an order at the touch is filled.

    Regressions, a small neural network and one with attention are fitted on the first three quarters of the hours; the last quarter calibrates
    their probabilities and decides which forecast of the trend is published.
    """
    from serl.agents.signals.cli_train import train_days
    from serl.extras import require

    require("training forecasts", "pyarrow", "torch", extra="learning")
    train_days(days, output, hours, horizons, symbol, seed)


@signals.command(epilog="Example: serl signals test amzn.signals AMZN.zip --hours 13:00-16:00")
@click.argument("forecaster", metavar="FORECASTER", type=click.Path(path_type=Path))
@DAYS
@click.option("--hours", help="Hours to test. [from the end of the training hours to the end of the first day]")
@click.option("-o", "--output", type=click.Path(path_type=Path), default=Path("signals.html"), show_default=True)
@click.option("--bootstraps", default=1000, show_default=True, type=click.IntRange(2, 100_000))
@click.option("--seed", default=1, show_default=True, type=click.IntRange(0), help="Seed of the bootstrap.")
@click.option("--json", "as_json", is_flag=True, help="Print all numbers as JSON instead of a table.")
@click.option("--markdown", is_flag=True, help="Print the table as Markdown.")
def test(
    forecaster: Path, days: tuple[Path, ...], hours: str | None, output: Path, bootstraps: int, seed: int, as_json: bool,
    markdown: bool,
) -> None:  # fmt: skip
    """Score a forecaster on hours that it was not trained on, beside two baselines: the most frequent class, and the direction of the last move.

    Writes an .html, .json and .png file with the name of OUTPUT.
    """
    from serl.agents.signals.cli_evaluate import score_days
    from serl.extras import require_reports

    if as_json and markdown:
        raise click.UsageError("expected --json or --markdown, got both; leave one out")
    require_reports()
    score_days(forecaster, days, hours, output, bootstraps, seed, as_json, markdown)


@signals.command(epilog="Example: serl signals publish amzn.signals --connect tcp://127.0.0.1:5570 --symbol AMZN")
@click.argument("forecaster", metavar="FORECASTER", type=click.Path(path_type=Path))
@click.option("--connect", default=DEFAULT_ENDPOINT, show_default=True, help="Orders endpoint of the exchange.")
@click.option("--symbol", help="Symbol to forecast. [the one that was trained]")
@click.option("--every", default=1.0, show_default=True, help="Seconds between forecasts, a multiple of 0.1.")
@click.option(
    "--from", "begin", help="Time of day of the exchange at which to begin, like 09:30: a lockstep clock may start hours before the market. [now]"
)  # fmt: skip
@click.option("--until", help="Time of day of the exchange at which to stop, like 16:00. [never]")
@click.option("--model", type=click.Choice(MODEL_NAMES), help="Model to publish. [the better one in training]")
@click.option("--print", "as_lines", is_flag=True, help="Print forecasts as JSON lines; publish nothing.")
@click.option("--name", default="signals", show_default=True, help="Participant to log in as.")
@curve_option
@token_options("Token of a participant with the permissions trade, data and operate")
def publish(
    forecaster: Path, connect: str, symbol: str | None, every: float, begin: str | None, until: str | None, model: str | None, as_lines: bool,
    name: str, curve: Path | None, token: str,
) -> None:  # fmt: skip
    """Follow a symbol of a running exchange and publish forecasts as news of kind `signal`, from a minute after the start on.

    Under a lockstep clock the forecaster is a participant that takes a turn every 100 ms. With --print the permission `operate` is not needed.
    """
    from serl.agents.signals.cli_publish import publish_forecasts

    publish_forecasts(forecaster, connect, symbol, every, begin, until, model, as_lines, name, token, curve)
