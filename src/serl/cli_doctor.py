"""`serl doctor`: what of this machine serl can use."""

import json
import sys
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from serl.doctor import Finding

TABLE_COLUMNS = 70
"""A table of three columns needs this; below, every check has lines of its own."""
MARKS = {"ok": "ok", "optional": "--", "broken": "!!"}
COLOURS = {"ok": "green", "optional": "yellow", "broken": "bold red"}


@click.command(epilog="Example: serl doctor --json")
@click.option("--json", "as_json", is_flag=True, help="For programs.")
def doctor(as_json: bool) -> None:
    """Checks this machine and says what to do: `!!` is broken, `--` is optional, or only slower the first time.

    The exit status is 1 if something is broken that commands without extras need.
    """
    from serl.doctor import checked

    findings = checked()
    broken = any(finding.state == "broken" for finding in findings)
    if as_json:
        click.echo(json.dumps({"ok": not broken, "checks": [asdict(finding) for finding in findings]}, indent=1))
    else:
        show(findings)
    sys.exit(1 if broken else 0)


def show(findings: "list[Finding]") -> None:
    """A table on a terminal that is wide enough, lines anywhere else and where the package that draws it is missing."""
    if find_spec("rich") is None:
        click.echo("\n".join(map(_line, findings)))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal or console.width < TABLE_COLUMNS:
        for one in findings:
            console.print(_line(one), markup=False, soft_wrap=not console.is_terminal)
        return
    table = Table(title="serl doctor", title_justify="left")
    for head in ("", "check", "found", "what to do"):
        table.add_column(head, overflow="fold")
    for one in findings:
        table.add_row(f"[{COLOURS[one.state]}]{MARKS[one.state]}", one.name, *map(_plain, (one.found, one.advice)))
    console.print(table)


def _line(one: "Finding") -> str:
    advice = f" -> {one.advice}" if one.advice else ""
    return f"{MARKS[one.state]} {one.name}: {one.found}{advice}"


def _plain(text: str) -> str:
    """Without rich's markup: paths and options may have brackets."""
    from rich.markup import escape

    return escape(text)
