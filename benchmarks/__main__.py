"""`python -m benchmarks NAME [--json]`: kernel, rulebook, library, start, served, durability, restart, hostile, soak, symbols, firsthour, gateways, nautilus, replay, history, traders, backtest, environments, making, directional, router, pairs, forecasts, offline, imitation, robustness, minds, ppo, llm, researcher, suite or all; `--write docs/benchmarks.md` replaces its section of that page, or all."""

import argparse
import importlib
import json
import os
import platform
import re
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks import soak

NAMES = (
    "kernel",
    "rulebook",
    "library",
    "start",
    "served",
    "durability",
    "replay",
    "history",
    "traders",
    "backtest",
    "environments",
    "ppo",
    "researcher",
)
APART = (
    "llm",
    "making",
    "directional",
    "router",
    "pairs",
    "forecasts",
    "offline",
    "imitation",
    "robustness",
    "minds",
    "restart",
    "hostile",
    "soak",
    "symbols",
    "firsthour",
    "gateways",
    "nautilus",
    "suite",
)
"""Benchmarks that need fetched models, other packages, a quiet machine, or minutes, hours and gigabytes of their own; `all` skips them."""


def _flat(values: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in values.items():
        name = f"{prefix}{key}"
        flat |= _flat(value, f"{name}.") if isinstance(value, dict) else {name: value}
    return flat


def _text(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


TITLE = """# Benchmarks

Made by `make bench`, or each section by `python -m benchmarks NAME --write docs/benchmarks.md`. Machines differ, and shared machines are noisy: compare the ratios, whose two sides were measured in the same run.
"""


def _section(name: str, values: dict[str, Any]) -> str:
    module = importlib.import_module(f"benchmarks.{name}")
    machine = f"{platform.machine()}, {platform.system()}, {os.cpu_count()} cores, Python {platform.python_version()}"
    rows = [f"| {key} | {_text(value)} |" for key, value in _flat(values).items()]
    return "\n".join(
        [(module.__doc__ or "").strip(), "", "| figure | value |", "|---|---|", *rows, "", f"Measured {time.strftime('%Y-%m-%d')} on {machine}."]
    )  # fmt: skip


def _write(page: Path, name: str, values: dict[str, Any]) -> None:
    """Replaces the section of this benchmark, and leaves the others as they are."""
    parts = re.split(r"^## (\w+)\n", page.read_text() if page.exists() else "", flags=re.MULTILINE)
    sections = dict(zip(parts[1::2], (part.strip() for part in parts[2::2]), strict=True))
    sections[name] = _section(name, values)
    page.write_text(
        TITLE + "".join(f"\n## {each}\n\n{sections[each]}\n" for each in (*NAMES, *APART) if each in sections)
    )


def main() -> None:
    """Run the requested benchmarks."""
    if sys.argv[1:2] == ["soak"]:
        return soak.main(sys.argv[2:])  # it has options of its own
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=[*NAMES, *APART, "all"])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument(
        "--write", type=Path, help="a Markdown page, in which the section of each benchmark is replaced"
    )
    arguments = parser.parse_args()
    names = NAMES if arguments.name == "all" else (arguments.name,)
    results: dict[str, dict[str, Any]] = {}
    for name in names:
        results[name] = importlib.import_module(f"benchmarks.{name}").run()
        measured = list(results[name]) != ["skipped"]  # if not, the page keeps the figures that it has
        if arguments.write and measured:  # at once: the next one may fail
            _write(arguments.write, name, results[name])
        if not arguments.json:
            print(name, flush=True)
            for key, value in _flat(results[name]).items():
                print(f"  {key:36} {_text(value)}", flush=True)
    if arguments.json:
        print(json.dumps(results if arguments.name == "all" else results[arguments.name]))


if __name__ == "__main__":
    main()
