"""The command line: one group, whose commands are imported when they are called."""

import difflib
import errno
import importlib
import os
import shutil
import signal
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, NoReturn

import click

from serl.garbage import collect_rarely
from serl.signals import unwind_on_signals

if TYPE_CHECKING:
    from serl.exchange.trader_processes import TraderOptions, TraderProcesses

GROUPS = {
    "Start here": {
        "demo": (
            "serl.demo.cli:demo",
            "Run everything at once: a market, an execution, the researcher and a page that shows them.",
        ),
        "doctor": ("serl.cli_doctor:doctor", "Check this machine and advise what to fix."),
        "docs": ("serl.cli_docs:docs", "Open the documentation in a browser, with search."),
        "dashboard": (
            "serl.cli_dashboard:dashboard",
            "Show a market, the researcher, LLM traders and a league in a browser.",
        ),
    },
    "Market": {
        "exchange": (
            "serl.exchange.cli:exchange",
            "Start an exchange, alone or with traders; query, operate and stop it.",
        ),
        "keys": ("serl.exchange.cli:keys", "Create CURVE keys for exchanges that other machines can reach."),
        "journal": ("serl.exchange.journal.cli:journal", "Verify, describe and repair the journal of an exchange."),
        "news": ("serl.clients.cli_news:news", "Publish and list messages about the world."),
        "drop-copy": (
            "serl.clients.cli_drop_copy:drop_copy",
            "Write the events of one participant, or of all, to a file.",
        ),
        "metrics": ("serl.clients.cli_metrics:metrics", "Serve metrics of an exchange for Prometheus, and its health."),
    },
    "Gateways": {
        "fix": ("serl.gateways.fix.cli:fix", "Serve clients that speak FIX 4.4."),
        "binance": (
            "serl.gateways.binance.cli:binance",
            "Serve Binance's spot API, so that bots for Binance trade here.",
        ),
        "ouch": ("serl.gateways.ouch.cli:ouch", "Serve OUCH 5.0 order entry for bots that speak it."),
    },
    "History": {
        "day": ("serl.history.cli:day", "Import and inspect days of market history."),
        "replay": ("serl.clients.cli_replay:replay", "Replay a day into a running exchange."),
        "record": ("serl.clients.cli_record:record", "Record a running exchange to a day file."),
        "nautilus": ("serl.gateways.nautilus.cli:nautilus", "Export days to NautilusTrader, for its backtest."),
    },
    "Simulated traders": {
        "agents": ("serl.agents.traders.cli_agents:agents", "Run populations of traders on a served exchange."),
        "minds": (
            "serl.minds.cli:minds",
            "Run traders whose decisions a language model makes, on a served exchange.",
        ),
        "simulate": ("serl.agents.traders.cli:simulate", "Simulate a day with a population of traders, in process."),
        "calibrate": ("serl.agents.calibration.cli:calibrate", "Fit a population to a real day."),
        "flow": ("serl.agents.calibration.flow.cli:flow", "Train order flow that is generated event by event."),
        "ranking": (
            "serl.agents.calibration.cli_ranking:ranking",
            "Compare how a population and a real day rank execution policies.",
        ),
        "realism": ("serl.agents.realism.cli:realism", "Compare a simulated day with a real one."),
        "impact": (
            "serl.agents.impact.cli:impact",
            "Measure the impact of a metaorder on a replayed or simulated day.",
        ),
        "signals": (
            "serl.agents.signals.cli:signals",
            "Forecast the mid from the order book: train, test, publish.",
        ),
        "experiment": (
            "serl.agents.experiments.cli:experiment",
            "Compare designs of a simulated market: tick sizes, latencies, traders.",
        ),
    },
    "Strategies": {
        "backtest": (
            "serl.agents.backtest.cli:backtest",
            "Backtest a strategy in process, on a recorded day or among simulated traders.",
        ),
        "run": ("serl.agents.backtest.cli_run:run", "Run a strategy on a served exchange."),
    },
    "Execution": {
        "execute": (
            "serl.agents.execution.cli:execute",
            "Execute a parent order on a running exchange and report its cost.",
        ),
        "train": ("serl.agents.learning.cli:train", "Train a policy that executes parent orders."),
        "evaluate": (
            "serl.agents.learning.cli_evaluate:evaluate",
            "Compare policies and schedules on the same held-out orders.",
        ),
        "league": (
            "serl.agents.league.cli:league",
            "Let executors and market makers meet in one market, and learn against each other.",
        ),
        "episodes": (
            "serl.agents.learning.cli_episodes:episodes",
            "Export episodes as a Minari dataset for offline learners; clone the best of them.",
        ),
        "volume-curve": (
            "serl.agents.execution.cli:volume_curve",
            "Estimate the intraday volume curve that VWAP needs.",
        ),
        "data": ("serl.agents.execution.cli_data:data", "Show how data is split into training, validation and test."),
        "bar-costs": (
            "serl.agents.execution.cli_data:bar_costs",
            "Estimate spread and impact for bars from days with a book.",
        ),
    },
    "Research": {
        "researcher": ("serl.researcher.outer.cli:researcher", "Let a language model design learning algorithms."),
        "llm": ("serl.researcher.cli_llm:llm", "Download, verify, serve and query language models on this machine."),
    },
}
"""The commands by heading of `serl --help`: where each is defined, and what it does."""
COMMANDS = {name: command for group in GROUPS.values() for name, command in group.items()}

RENAMED = {"law": "serl impact --simulated POPULATION (its --shares is --qty-share)"}
"""Former commands and what replaces them."""

NAME_COLUMNS = max(map(len, COMMANDS))
CLICK_COLUMNS_MIN = 50
"""The narrowest help that click formats."""


class HelpText(click.HelpFormatter):
    """Help as wide as the terminal, even below click's minimum; there, descriptions are printed below their terms."""

    def __init__(self, indent_increment: int = 2, width: int | None = None, max_width: int | None = None) -> None:
        columns = shutil.get_terminal_size().columns - 1
        self._narrow = columns < CLICK_COLUMNS_MIN
        super().__init__(indent_increment, columns if self._narrow else width, max_width)

    def write_usage(self, prog: str, args: str = "", prefix: str | None = None) -> None:
        """See click.HelpFormatter."""
        if self._narrow:
            self.write_text(f"{prefix or 'Usage: '}{prog} {args}")
        else:
            super().write_usage(prog, args, prefix)

    def write_dl(self, rows: Iterable[tuple[str, str]], col_max: int = 30, col_spacing: int = 2) -> None:
        """See click.HelpFormatter."""
        if not self._narrow:
            super().write_dl(list(rows), col_max, col_spacing)
            return
        for term, description in rows:
            self.write_text(term)
            with self.indentation():
                self.write_text(description)


click.Context.formatter_class = HelpText  # for all commands


class _LazyGroup(click.Group):
    """Imports a command's module only when the command runs, so that --help is quick."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if ctx.resilient_parsing and cmd_name not in COMMANDS:
            return None  # shell completion of an unknown command
        if cmd_name in RENAMED:
            raise click.UsageError(
                f"expected a command, got the former `serl {cmd_name}`; use {RENAMED[cmd_name]}", ctx
            )
        if cmd_name not in COMMANDS:
            close = difflib.get_close_matches(cmd_name, COMMANDS)
            advice = f"; did you mean {' or '.join(close)}?" if close else "; see serl --help"
            raise click.UsageError(f"expected a command, got {cmd_name}{advice}", ctx)
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for heading, group in GROUPS.items():
            with formatter.section(heading):
                formatter.write_dl([(f"{name:{NAME_COLUMNS}}", text) for name, (_, text) in group.items()])


@click.group(cls=_LazyGroup, epilog="Example: serl exchange start --with liquid")
@click.version_option(package_name="serl")
@click.pass_context
def serl(context: click.Context) -> None:
    """Simulate markets and teach agents to trade in them."""
    context.obj = _start_population


def _start_population(options: "TraderOptions") -> "TraderProcesses":
    """The traders of `serl exchange start --with`, passed in from here because the exchange must not import higher layers."""
    from serl.agents.traders.population_processes import PopulationProcesses

    return PopulationProcesses(options)


def main() -> None:
    """Runs the command line. An error of serl, or a file that cannot be used, gives one line on stderr and exit status 2; a signal gives exit status
    128 + its number."""
    _open_outputs()
    try:
        unwind_on_signals()
        collect_rarely()
        _run()
    except (KeyboardInterrupt, click.Abort):
        _stopped()
    except RuntimeError as error:  # Python raises this if it is interrupted while it creates a class
        if not isinstance(error.__cause__, KeyboardInterrupt):
            raise
        _stopped()
    finally:
        # `python -m` ends by the signal, whatever the exit status, if the last text passed to `exec` (as dataclasses do) was
        # interrupted.
        exec("")


def _open_outputs() -> None:
    """Discards what would be written to an output that is closed, like that of a daemon: Python has None for it."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w"))


def _stopped() -> NoReturn:
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
        if error.filename is not None:
            _fail(f"{error.filename}: {error.strerror}; give another path")
        if error.errno != errno.ENOSPC:  # ENOSPC of a write, whose error does not name a file
            raise
        _fail(f"{error.strerror}; free disk space, and repeat the command")
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)


def _fail(error: object) -> NoReturn:
    click.echo(f"error: {error}", err=True)
    sys.exit(2)


def _command(words: list[str]) -> str:
    """The command name at the start of a command line, without arguments and options."""
    command: click.Command | None = serl
    names = ["serl"]
    for word in words:
        command = command.get_command(click.Context(command), word) if isinstance(command, click.Group) else None
        if command is None:
            break
        names.append(word)
    return " ".join(names)
