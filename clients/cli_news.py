"""`serl news`: sends news from a file to a running exchange, and lists what it published."""

import json
from pathlib import Path

import click

from serl.exchange.cli_login import curve_option, token_options
from serl.exchange.cli_request import DEFAULT_ENDPOINT, Request, exchange_options


@click.group(epilog="Example: serl news send news.csv && serl news list")
def news() -> None:
    """Messages of an exchange about the world."""


@news.command(epilog="Example: serl news send news.csv --connect tcp://127.0.0.1:5570")
@click.argument("file", type=click.Path(path_type=Path, dir_okay=False))
@click.option("--connect", default=DEFAULT_ENDPOINT, show_default=True, help="Orders endpoint of the exchange.")
@click.option("--name", default="news", show_default=True, help="Participant to log in as, under a lockstep clock.")
@curve_option
@token_options("Token of a participant with the permission operate")
def send(file: Path, connect: str, name: str, curve: Path | None, token: str) -> None:
    """Publish the messages of FILE, a CSV file with a header or JSON lines, each at its time. Fields: time, day (or time_ns), kind, symbol, headline,
    body, value, source."""
    from serl.clients.news_file import read_news_file
    from serl.clients.news_sender import NewsSender

    messages, sent = read_news_file(file), 0
    try:
        with NewsSender(connect, messages, name, token, curve) as sender:
            for _ in sender.send():
                sent += 1
    finally:
        click.echo(f"published {sent:,} of {len(messages):,} messages")


@news.command("list", epilog="Example: serl news list --last 20")
@click.option("--last", type=click.IntRange(1, 2**53), default=20, show_default=True, help="Messages to list.")
@exchange_options
def list_(request: Request, last: int) -> None:
    """Print the last messages of a running exchange as JSON lines, oldest first; time_ns is after midnight of the exchange's day."""
    from serl.clients.news import NewsPages

    midnight_ns, pages = request("queries", "INFO")[5][2][3], NewsPages(last)
    while not pages.are_complete:
        pages.add(request("queries", "NEWS", pages.after)[5])
    for message in pages.messages:
        click.echo(json.dumps(message._replace(time_ns=message.time_ns - midnight_ns).to_json(), ensure_ascii=False))
