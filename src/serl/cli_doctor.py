"""`serl doctor`: checks whether this machine has what serl needs."""

import json
import sys
from dataclasses import asdict
from importlib.util import find_spec
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from serl.doctor import Finding

TABLE_COLUMNS = 70
"""Width below which findings are printed as lines instead of a table."""
MARKS = {"ok": "ok", "optional": "--", "broken": "!!"}
COLOURS = {"ok": "green", "optional": "yellow", "broken": "bold red"}


@click.command(epilog="Example: serl doctor --json")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def doctor(as_json: bool) -> None:
    """Check this machine and advise what to fix: `!!` is broken, `--` is optional or only slows the first start.

    The exit status is 1 if anything is broken that commands without extras need.
    """
    from serl.doctor import run_checks

    findings = run_checks()
    broken = any(finding.state == "broken" for finding in findings)
    if as_json:
        click.echo(json.dumps({"ok": not broken, "checks": [asdict(finding) for finding in findings]}, indent=1))
    else:
        show(findings)
    sys.exit(1 if broken else 0)


def show(findings: "list[Finding]") -> None:
    """Prints a table on a wide terminal; lines elsewhere, or without the package rich."""
    if find_spec("rich") is None:
        click.echo("\n".join(map(_line, findings)))
        return
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal or console.width < TABLE_COLUMNS:
        for finding in findings:
            console.print(_line(finding), markup=False, soft_wrap=not console.is_terminal)
        return
    table = Table(title="serl doctor", title_justify="left")
    for head in ("", "check", "found", "what to do"):
        table.add_column(head, overflow="fold")
    for finding in findings:
        mark = f"[{COLOURS[finding.state]}]{MARKS[finding.state]}"
        table.add_row(mark, finding.name, *map(_escape_markup, (finding.found, finding.advice)))
    console.print(table)


def _line(finding: "Finding") -> str:
    advice = f" -> {finding.advice}" if finding.advice else ""
    return f"{MARKS[finding.state]} {finding.name}: {finding.found}{advice}"


def _escape_markup(text: str) -> str:
    """Escapes rich's markup: paths and options may contain brackets."""
    from rich.markup import escape

    return escape(text)
