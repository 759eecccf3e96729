"""`python -m benchmarks.minds_study`: minds with a language model, and as many that decide at random, in one market (the scenario of StockAgent,
arXiv 2407.18957: two stocks, reports, a rate change, loans).

The scenario is `two-stocks-week`, its first `--days` days, with `--count` minds of each persona and as many twins with the same cash and shares that
draw their decisions (`decides: random`). Each of `--seeds` seeds is a market of its own. The table has, for each kind, the mean over seeds of: the
return of all its wealth, turnover of a mind as a share of its first wealth, orders and fills of a mind, herding (Lakonishok, Shleifer and Vishny); and
the difference with its 95 % interval (Student's t over seeds). At equal times the orders of minds that logged in first arrive first, so minds and
twins log in by turns, and which of a pair is first changes with the seed. Answers are kept in FOLDER: a run that is begun again continues. A model
with several `slots` gives other answers in another run.
"""

import argparse
import asyncio
import json
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from rich.console import Console
from rich.progress import Progress

from benchmarks.endings import one_line_endings
from serl.agents.students_t import mean_interval
from serl.exchange.atomic_file import write_json
from serl.exchange.errors import ConfigError
from serl.minds.config import MindsConfig, load_minds
from serl.minds.errors import MindsError
from serl.minds.models import model_client
from serl.minds.run import RunOptions, run_minds

KINDS = ("model", "random")
MEASURES = ("return", "turnover", "orders", "fills", "herding")
STATISTICS, SETTINGS = "statistics.json", "settings.json"


def configured(source: str, count: int, days: int, seed: int) -> tuple[MindsConfig, Path]:
    """The settings with twins, and the folder of their files."""
    config, place = load_minds(source)
    personas = []
    for number in range(count):
        for place_of, persona in enumerate(config.personas):
            pair = [
                persona.model_copy(update={"name": f"{persona.name}-{number}", "count": 1}),
                persona.model_copy(update={"name": f"{persona.name}-{number}r", "count": 1, "decides": "random"}),
            ]
            personas += pair if (seed + number + place_of) % 2 else reversed(pair)
    return config.model_copy(update={"personas": tuple(personas), "days": days, "seed": seed}), place


def begin(folder: Path, options: dict[str, Any]) -> None:
    """Creates the folder, or continues in it. ConfigError if it holds runs with other options."""
    path = folder / SETTINGS
    if path.exists() and json.loads(path.read_text()) != options:
        raise ConfigError(f"{folder}: expected the options in {path}, got others; choose another --folder")
    folder.mkdir(parents=True, exist_ok=True)
    write_json(path, options)


def played(
    config: MindsConfig, place: Path, folder: Path, market: Callable[[], AbstractContextManager[str]]
) -> dict[str, Any]:
    """The statistics of a market, which are not made again if they are in its folder. market: its exchange, as the endpoint."""
    known = folder / STATISTICS
    if known.exists():
        return dict(json.loads(known.read_text()))
    folder.mkdir(parents=True, exist_ok=True)
    with market() as endpoint, model_client(config, folder / "calls.jsonl", offline=False) as model:
        found = asyncio.run(run_minds(config, place, model, RunOptions(endpoint, say=lambda text: None)))
    if found["stopped_early"]:
        raise KeyboardInterrupt
    if unknown := [row["mind"] for row in found["minds"] if row["final_wealth"] is None]:
        raise MindsError(
            f"{folder}: expected the wealth of all minds at the end, got none of {', '.join(unknown)}; run it again"
        )
    write_json(known, found)
    return found


@contextmanager
def exchange_of(config: MindsConfig) -> Iterator[str]:
    """The endpoint of an exchange on which only minds trade."""
    from tests.server_fixture import start_exchange

    with start_exchange(symbols=",".join(config.symbols), clock="lockstep") as exchange:
        yield exchange.endpoint


def measures(group: dict[str, Any]) -> dict[str, float]:
    """Of the minds of one kind."""
    minds, herding = group["minds"], group["herding"]["mean"]
    return {
        "return": group["return"], "turnover": group["turnover"] / group["first_wealth"], "orders": group["orders"] / minds,
        "fills": group["fills"] / minds, "herding": float("nan") if herding is None else herding,
    }  # fmt: skip


def compared(
    markets: list[dict[str, Any]], more: Mapping[str, Callable[[dict[str, Any], str], float]] = MappingProxyType({})
) -> list[dict[str, Any]]:
    """A row for each measure: means of both kinds, and the difference with its interval; markets without herding are left out of its row.
    more: further measures of a market and a kind."""
    both = [
        {kind: measures(one["deciders"][kind]) | {name: of(one, kind) for name, of in more.items()} for kind in KINDS}
        for one in markets
    ]
    rows = []
    for name in (*MEASURES, *more):
        pairs = [(one["model"][name], one["random"][name]) for one in both]
        finite = [(model, random) for model, random in pairs if model == model and random == random]
        differences = [model - random for model, random in finite]
        means = [sum(side) / len(finite) for side in zip(*finite, strict=True)] or [None, None]
        interval = mean_interval(differences)
        rows.append({
            "measure": name, "markets": len(finite), **dict(zip(KINDS, means, strict=True)),
            "difference": None if interval is None else {"mean": interval[0], "low": interval[1], "high": interval[2]},
        })  # fmt: skip
    return rows


def markdown(rows: list[dict[str, Any]], markets: str) -> str:
    """The table, without measures that no market has."""
    lines = [f"| | with a model | at random | difference | {markets} |", "|---|---|---|---|---|"]
    for row in (row for row in rows if row["markets"]):
        found, means = row["difference"], [f"{row[kind]:.3f}" for kind in KINDS]
        text = "" if found is None else f"{found['mean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"
        lines.append(f"| {row['measure']} | {' | '.join(means)} | {text} | {row['markets']} |")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> None:
    """The command."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.minds_study", description=__doc__)
    made.add_argument("--config", default="two-stocks-week")
    made.add_argument("--count", type=int, default=4, help="minds of each persona, and as many twins")
    made.add_argument("--days", type=int, default=2)
    made.add_argument("--seeds", type=int, default=5)
    made.add_argument("--folder", type=Path, default=Path("runs/minds-study"))
    made.add_argument("--json", action="store_true")
    with one_line_endings("the same command continues"):
        sys.stdout.write(studied(made.parse_args(words)))


def studied(options: argparse.Namespace) -> str:
    """Runs what is missing; the table, or JSON."""
    found = []
    begin(options.folder, {"config": options.config, "count": options.count, "days": options.days})
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for seed in progress.track(range(1, options.seeds + 1), description="markets"):
            config, place = configured(options.config, options.count, options.days, seed)
            found.append(played(config, place, options.folder / f"seed-{seed}", partial(exchange_of, config)))
    return told(compared(found), found, as_json=options.json)


def told(rows: list[dict[str, Any]], found: list[dict[str, Any]], markets: str = "seeds", *, as_json: bool) -> str:
    """The table of `compared`, and how many answers of the model were valid; or both as JSON."""
    valid, decisions = (sum(one["deciders"]["model"][name] for one in found) for name in ("valid", "decisions"))
    if as_json:
        return json.dumps({"rows": rows, "valid": valid, "decisions": decisions})
    return f"{markdown(rows, markets)}\n\n{valid} of {decisions} answers of the model were valid.\n"


if __name__ == "__main__":
    main()
