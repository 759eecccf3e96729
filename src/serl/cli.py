"""The command line: one group, whose commands are loaded when they are called."""

import importlib
import signal
import sys
from typing import NoReturn

import click

from serl.help_text import HelpText
from serl.signals import unwind_on_signals

COMMANDS = {
    "exchange": ("serl.exchange.cli:exchange", "Start an exchange, ask it, stop it."),
    "keys": ("serl.exchange.cli_keys:keys", "Make CURVE keys for exchanges beyond this machine."),
    "day": ("serl.history.cli:day", "Import and look at days of market history."),
    "replay": ("serl.clients.cli_replay:replay", "Play a day into a running exchange."),
    "record": ("serl.clients.cli_record:record", "Write what happens on a running exchange to a day file."),
    "drop-copy": ("serl.clients.cli_drop_copy:drop_copy", "Write the events of a participant, or of all, to a file."),
    "execute": ("serl.agents.execution.cli:execute", "Work a parent order on a running exchange; what it cost."),
    "data": ("serl.agents.execution.cli_data:data", "How data is split into training, validation and test."),
    "volume-curve": ("serl.agents.execution.cli:volume_curve", "When a day's volume is traded: what VWAP needs."),
    "realism": ("serl.agents.realism.cli:realism", "How real is a simulated day? A report against a real one."),
    "impact": ("serl.agents.impact.cli:impact", "What a metaorder does to the mid, replayed or simulated."),
    "agents": ("serl.agents.traders.cli_agents:agents", "Let populations of traders trade on a served exchange."),
    "simulate": ("serl.agents.traders.cli:simulate", "A day made by a population of traders, in process."),
    "calibrate": ("serl.agents.calibration.cli:calibrate", "A population that is fitted to a real day."),
    "train": ("serl.agents.learning.cli:train", "Learn to execute parent orders."),
    "evaluate": ("serl.agents.learning.cli_evaluate:evaluate", "Policies and schedules on the same held-out orders."),
    "llm": ("serl.researcher.llm.cli:llm", "Language models on this machine: get, check, serve them."),
    "researcher": ("serl.researcher.outer.cli:researcher", "A language model designs learning algorithms."),
    "doctor": ("serl.cli_doctor:doctor", "Check this machine, say what to do."),
    "dashboard": ("serl.researcher.browse.cli:dashboard", "The market in a browser, and the researcher beside it."),
    "demo": ("serl.demo.cli:demo", "Everything at once: a market, an execution, the researcher, a page to watch them."),
}

RENAMED = {"law": "serl impact --simulated POPULATION (its --shares is --qty-share)"}
"""Former commands and their present form."""

click.Context.formatter_class = HelpText  # of all commands


class _Rooms(click.Group):
    """Imports a room only for the command that needs it, so that --help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name in RENAMED:
            raise click.UsageError(
                f"expected a command, got the former `serl {cmd_name}`; use {RENAMED[cmd_name]}", ctx
            )
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(cls=_Rooms, epilog="Example: serl exchange start --symbols AMZN,GOOG")
@click.version_option(package_name="serl")
def serl() -> None:
    """Simulate markets and teach agents to trade in them."""


def main() -> None:
    """Runs the command line; errors of ours, and files that cannot be used, are one line on stderr and exit status 2, a signal 128 + its number."""
    unwind_on_signals()
    try:
        _run()
    except (KeyboardInterrupt, click.Abort):
        click.echo("stopped (SIGINT)", err=True)
        sys.exit(128 + signal.SIGINT)


def _run() -> None:
    from serl.exchange.errors import SerlError
    from serl.extras import missing_package

    try:
        serl(standalone_mode=False)
    except SerlError as error:
        _fail(error)
    except ModuleNotFoundError as error:
        missing = missing_package(error, f"`{_command(sys.argv[1:])}`")
        if missing is None:
            raise
        _fail(missing)
    except OSError as error:
        if error.filename is None:
            raise
        _fail(f"{error.filename}: {error.strerror}; give another path")
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


def _fail(error: object) -> NoReturn:
    click.echo(f"error: {error}", err=True)
    sys.exit(2)


def _command(words: list[str]) -> str:
    """The words of a command line that name the command."""
    command: click.Command | None = serl
    named = ["serl"]
    for word in words:
        command = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if command is None:
            break
        named.append(word)
    return " ".join(named)
