"""`python -m benchmarks NAME [--json]`: kernel, rulebook, library, start, served, durability, restart, hostile, soak, firsthour, gateways, nautilus, replay, history, traders, backtest, environments, making, directional, ppo, llm, researcher or all; `--write FILE` writes docs/benchmarks.md."""

import argparse
import importlib
import json
import platform
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
APART = ("llm", "making", "directional", "restart", "hostile", "soak", "firsthour", "gateways", "nautilus")
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


def _page(results: dict[str, dict[str, Any]]) -> str:
    lines = [
        "# Benchmarks",
        "",
        f"Made by `make bench` on {platform.machine()}, {platform.system()}, Python {platform.python_version()}, "
        f"{time.strftime('%Y-%m-%d')}. Machines differ, and shared machines are noisy: compare the ratios, whose two "
        "sides were measured in the same run.",
    ]
    for name, values in results.items():
        module = importlib.import_module(f"benchmarks.{name}")
        lines += ["", f"## {name}", "", (module.__doc__ or "").strip(), "", "| figure | value |", "|---|---|"]
        lines += [f"| {key} | {_text(value)} |" for key, value in _flat(values).items()]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run the requested benchmarks."""
    if sys.argv[1:2] == ["soak"]:
        return soak.main(sys.argv[2:])  # it has options of its own
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=[*NAMES, *APART, "all"])
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")
    parser.add_argument("--write", type=Path, help="also write a Markdown page")
    arguments = parser.parse_args()
    names = NAMES if arguments.name == "all" else (arguments.name,)
    results: dict[str, dict[str, Any]] = {}
    for name in names:
        results[name] = importlib.import_module(f"benchmarks.{name}").run()
        if not arguments.json:
            print(name, flush=True)
            for key, value in _flat(results[name]).items():
                print(f"  {key:36} {_text(value)}", flush=True)
    if arguments.json:
        print(json.dumps(results if arguments.name == "all" else results[arguments.name]))
    if arguments.write:
        arguments.write.write_text(_page(results))


if __name__ == "__main__":
    main()
