"""`python -m benchmarks.finmem BARS`: FinMem's single trader with a layered memory (arXiv 2311.13743) over days of bars, beside one at random.

Of each of the first `--stocks` stocks of the table (in order of their symbols) the first `--days` days are played in a market of its own, in lockstep:
a day takes `interval_s` of `finmem`, in which the value that the simulated traders of POPULATION know moves along the bars' half hours, scaled so that
the first open is the population's price. At each new day the mind with a model reads how the day before went, in one line, and decides once; its twin with
the same cash and shares draws its decisions. Which of them logs in first, and so comes first among orders of the same time, alternates. The table has,
for each, the mean over stocks of the return, that return less what the portfolio at the start would have made at the bars' prices, turnover as a share of
the first wealth, orders and fills; and the difference with its 95 % interval (Student's t over stocks). Runs are kept in FOLDER; a repeated command continues.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from rich.console import Console
from rich.progress import Progress

from benchmarks.endings import one_line_endings
from benchmarks.minds_study import KINDS, begin, compared, played, told
from serl.agents.execution.bar_files import BarTable, read_bars
from serl.agents.execution.environment.bars import CLOSE, OPEN, VOLUME
from serl.agents.traders.population import load_population
from serl.clients.processes import terminate
from serl.exchange.errors import ConfigError
from serl.minds.config import MindsConfig, load_minds

CONFIG, POPULATION, SYMBOL = "finmem", "informed", "DEMO"
PARTS = 13
"""Half hours of a trading day."""
VOLATILITY = 0.05
"""Of the value beside the bars' path, in ticks per root second: half a tick a day."""
PARTICIPANTS = 4
"""Two minds, the simulated traders, and the sender of the values."""
VALUES, EVENTS = "values.csv", "events.jsonl"
INFORMED_LOTS_MAX = 500
"""Largest order of a trader who knows the value: with the population's 100 the mid is a per cent behind on a day that moves it by fourteen."""
STOP_S_MAX = 30.0


@dataclass(frozen=True)
class Story:
    """Days of one stock."""

    stock: str
    start_ticks: int
    """At which the market, and what the minds own, begins."""
    values: Any
    """(days, PARTS) in ticks."""
    volumes: Any
    """(days,) shares."""

    @property
    def growth(self) -> float:
        """The last value over the price at the start."""
        return float(self.values[-1, -1] / self.start_ticks)

    def headline(self, day: int) -> str:
        """How a day went, in words."""
        before = self.values[day - 1, -1] if day else self.values[0, 0]
        change = 100 * (self.values[day, -1] / before - 1)
        volume = self.volumes[day] / self.volumes[: day + 1].mean()
        return f"Yesterday the stock closed {abs(change):.1f} % {'higher' if change >= 0 else 'lower'}, on {volume:.1f} times its mean volume."


def stories(table: BarTable, stocks: int, days: int, start_ticks: int) -> list[Story]:
    """The first days of the first stocks. ConfigError if there are fewer."""
    found = []
    for number, name in enumerate(table.symbols):
        rows = np.flatnonzero(table.symbol == number)[:days]
        if len(rows) < days or len(found) == stocks:
            continue
        bars = table.bars.values[rows]
        places = np.linspace(0, bars.shape[1], PARTS + 1).astype(int)[1:] - 1
        values = np.rint(bars[:, places, CLOSE] * (start_ticks / bars[0, 0, OPEN])).astype(int)
        found.append(Story(name, start_ticks, values, bars[:, :, VOLUME].sum(axis=1)))
    if len(found) < stocks:
        raise ConfigError(
            f"BARS: expected {stocks} stocks with {days} days, got {len(found)}; give fewer --stocks or --days"
        )
    return found


def write_story(story: Story, config: MindsConfig, folder: Path) -> None:
    """The values for the simulated traders, and what the minds read."""
    day_ns, begin_ns = config.interval_ns, config.span_ns[0]
    rows = [
        f"{begin_ns + day * day_ns + part * day_ns // PARTS},value,{SYMBOL},{value}"
        for day, values in enumerate(story.values)
        for part, value in enumerate(values)
    ]
    (folder / VALUES).write_text("\n".join(["time_ns,kind,symbol,value", *rows]) + "\n")
    events = [
        {"kind": "news", "after_s": day * config.interval_s, "symbol": SYMBOL, "text": story.headline(day - 1)}
        for day in range(1, len(story.values))
    ]
    (folder / EVENTS).write_text("".join(json.dumps(event) + "\n" for event in events))


def configured(number: int, days: int) -> MindsConfig:
    """The minds of a market."""
    config, _ = load_minds(CONFIG)
    begin_s = config.span_ns[0] // 10**9
    end_s = begin_s + round(days * config.interval_s)
    hours = "-".join(f"{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}" for second in (begin_s, end_s))
    order = config.personas if number % 2 else config.personas[::-1]
    return config.model_copy(update={"personas": order, "hours": hours, "events": Path(EVENTS), "seed": number})


@contextmanager
def market(story: Story, config: MindsConfig, folder: Path) -> Iterator[str]:
    """The endpoint of an exchange with the simulated traders and the sender of the values, whose files go into the folder."""
    from tests.server_fixture import launch

    write_story(story, config, folder)
    population = load_population(POPULATION).model_dump(mode="json", exclude_unset=True)
    population["value"]["volatility_ticks_per_root_s"] = VOLATILITY
    for group in population["groups"]:
        if group["trader"] == "informed":
            group["profile"]["order_lots_max"] = INFORMED_LOTS_MAX
    (folder / "population.yaml").write_text(yaml.safe_dump(population))
    served = launch(
        "--with", str(folder / "population.yaml"), "--clock", "lockstep", "--participants", str(PARTICIPANTS)
    )
    command = [sys.executable, "-m", "serl", "news", "send", str(folder / VALUES), "--connect", served.endpoint]
    sender = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    try:
        yield served.endpoint
    finally:
        for process in (sender, served.process):
            terminate(process, STOP_S_MAX)
        assert served.process.stdout is not None
        served.process.stdout.close()


def beyond_holding(found: dict[str, Any], config: MindsConfig, gain: float) -> dict[str, float]:
    """The return of each kind, less that of its portfolio at the start. gain: in money of a share, at the bars' prices."""
    shares = {persona.decides: persona.shares[SYMBOL] for persona in config.personas}
    held = {kind: shares[kind] * gain / found["deciders"][kind]["first_wealth"] for kind in KINDS}
    return {kind: found["deciders"][kind]["return"] - held[kind] for kind in KINDS}


def main(words: list[str] | None = None) -> None:
    """The command."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.finmem", description=__doc__)
    made.add_argument("bars", type=Path, help="a Parquet file of bars (docs/history.md)")
    made.add_argument("--stocks", type=int, default=8)
    made.add_argument("--days", type=int, default=20)
    made.add_argument("--folder", type=Path, default=Path("runs/finmem"))
    made.add_argument("--json", action="store_true")
    with one_line_endings("the same command continues"):
        sys.stdout.write(studied(made.parse_args(words)))


def studied(options: argparse.Namespace) -> str:
    """Runs what is missing; the table, or JSON."""
    begin(options.folder, {"bars": options.bars.name, "days": options.days})
    population = load_population(POPULATION)
    start_ticks = round(population.value.mean_ticks)
    found = []
    markets = stories(read_bars(options.bars), options.stocks, options.days, start_ticks)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for number, story in enumerate(progress.track(markets, description="stocks"), 1):
            config = configured(number, options.days)
            folder = options.folder / story.stock
            one = played(config, folder, folder, partial(market, story, config, folder))
            gain = start_ticks / 100 * (story.growth - 1)
            found.append(one | {"beyond": beyond_holding(one, config, gain)})
    rows = compared(found, {"return beyond holding": lambda one, kind: one["beyond"][kind]})
    return told(rows, found, "stocks", as_json=options.json)


if __name__ == "__main__":
    main()
