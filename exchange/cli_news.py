"""`serl exchange news`: publishes a message about the world."""

import click

from serl.exchange.cli_request import Request, exchange_options
from serl.exchange.errors import ConfigError

KINDS = ("news", "fundamental", "macro", "value", "signal")
"""Names of NewsKind. They are repeated here so that the help imports no more than it prints; a test compares them."""


def number(text: str | None, kind: str) -> int | float | None:
    """Parses the option --value: an integer number of ticks for the kind `value`, otherwise any number. Raises ConfigError."""
    if text is None:
        return None
    try:
        return int(text) if kind == "value" else float(text)
    except ValueError:
        expected = "an integer of ticks" if kind == "value" else "a number"
        raise ConfigError(f"--value: expected {expected}, got {text!r}") from None


@click.command(
    "news", epilog='Example: serl exchange news "Quarterly revenue up 12 %" --kind fundamental --symbol AMZN'
)
@click.argument("headline", default="")
@click.option("--kind", type=click.Choice(KINDS), default="news", show_default=True, help="What the message is about.")
@click.option("--symbol", default="", help="Symbol that it concerns. [none]")
@click.option("--body", default="", help="More text.")
@click.option("--value", help="A number; of the kind value, the symbol's value in ticks.")
@click.option("--source", default="", help="Who says so.")
@exchange_options
def news(request: Request, headline: str, kind: str, symbol: str, body: str, value: str | None, source: str) -> None:
    """Publish a message about the world on the feed. It is on the disk when the command returns. Under a lockstep clock it reaches everybody before
    the next turn at a later time."""
    from serl.exchange.news import kind_number

    fields = headline, body, number(value, kind), source
    sequence, time_ns = request("admin", "PUBLISH_NEWS", kind_number(kind), symbol, *fields)[5]
    click.echo(f"message {sequence} published at {time_ns} ns")
