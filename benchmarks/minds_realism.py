"""`python -m benchmarks.minds_realism DAY`: how far a market of minds with a language model is from a real day, beside a market of as many at random.

The scenario is `two-stocks-week` (StockAgent's, arXiv 2407.18957), its first `--days` days, with `--count` minds of each persona, who trade among
themselves. Each of `--seeds` seeds has two markets: in one all minds ask the model, in the other all draw their decisions (`decides: random`). Both
are recorded (`recorded.parquet`). The table has the distance L1 of each of the 21 scores of docs/realism.md to all of DAY, and their mean, averaged
over seeds; the difference of both kinds with its 95 % interval (Student's t over seeds); and, because a small sample is far from any distribution, the
same for stretches of DAY itself, drawn by the seed, with as many messages as the market of the minds with a model. Values of both stocks are one sample.
Answers and recordings are kept in FOLDER: a repeated command continues.
"""

import argparse
import json
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import Progress

from benchmarks.endings import one_line_endings
from benchmarks.minds_study import KINDS, begin, exchange_of, played
from serl.agents.realism.days import load_day
from serl.agents.realism.distances import l1
from serl.agents.realism.errors import RealismError
from serl.agents.realism.scores import SCORES
from serl.agents.realism.tape import Tape, build_tape
from serl.agents.students_t import mean_interval
from serl.clients.record import Recorder
from serl.history.day import day_writer, read_day
from serl.minds.config import MindsConfig, load_minds

RECORDED, STRETCH, MEAN = "recorded.parquet", "stretch", "mean L1"
SAMPLES = (*KINDS, STRETCH)


def configured(source: str, count: int, days: int, seed: int, kind: str) -> tuple[MindsConfig, Path]:
    """The settings of a market of one kind, and the folder of their files."""
    config, place = load_minds(source)
    personas = tuple(one.model_copy(update={"count": count, "decides": kind}) for one in config.personas)
    return config.model_copy(update={"personas": personas, "days": days, "seed": seed}), place


@contextmanager
def recorded(config: MindsConfig, path: Path) -> Iterator[str]:
    """The endpoint of an exchange on which only minds trade, recorded to a day file that is there once they are done."""
    stop, failed = threading.Event(), []

    def record(recorder: Recorder) -> None:
        try:
            recorder.run(stop, lambda now: None)
            recorder.finish()
        except Exception as error:  # raised again by the main thread
            failed.append(error)

    with exchange_of(config) as endpoint, day_writer(path) as writer:
        recorder = Recorder(endpoint, writer)
        thread = threading.Thread(target=record, args=(recorder,))
        thread.start()
        try:
            yield endpoint
        finally:
            stop.set()
            thread.join()
            recorder.close()
        if failed:
            raise failed[0]


def tapes_of(path: Path, config: MindsConfig, levels: int) -> list[Tape]:
    """The tape of each stock."""
    day = read_day(path)
    return [build_tape(day, levels, symbol) for symbol in config.symbols]


def stretches(real: Tape, lengths: list[int], seed: int) -> list[Tape]:
    """Stretches of consecutive messages of the day. RealismError if one is longer than the day."""
    random = np.random.default_rng(seed)
    if max(lengths) > len(real):
        raise RealismError(f"DAY: expected at least {max(lengths):,} messages, got {len(real):,}; give a longer day")
    starts = [int(random.integers(len(real) - length + 1)) for length in lengths]
    return [real.part(start, start + length) for start, length in zip(starts, lengths, strict=True)]


def distances(real: Tape, tapes: list[Tape]) -> dict[str, float]:
    """L1 of each score to the day, and their mean. 1 where the tapes have no value of a score, as in LOB-Bench."""
    random = np.random.default_rng(0)  # nothing is drawn without bootstraps
    found = {}
    for score in SCORES:
        values = np.concatenate([score.values(tape) for tape in tapes])
        found[score.name] = l1(score.values(real), values, score.discrete, 0, random).value
    return {MEAN: float(np.mean(list(found.values()))), **found}


def rows_of(markets: list[dict[str, dict[str, float]]]) -> list[dict[str, Any]]:
    """A row for each score: its mean over markets in each sample, and the difference of both kinds with its interval."""
    rows = []
    for name in markets[0][STRETCH]:
        interval = mean_interval([one["model"][name] - one["random"][name] for one in markets])
        rows.append({
            "score": name, **{sample: float(np.mean([one[sample][name] for one in markets])) for sample in SAMPLES},
            "difference": None if interval is None else dict(zip(("mean", "low", "high"), interval, strict=True)),
        })  # fmt: skip
    return rows


def markdown(rows: list[dict[str, Any]]) -> str:
    """The table."""
    lines = ["| L1 to the day | with a model | at random | difference | stretch of the day |", "|---|---|---|---|---|"]
    for row in rows:
        found = row["difference"]
        text = "" if found is None else f"{found['mean']:.3f} [{found['low']:.3f}, {found['high']:.3f}]"
        lines.append(f"| {row['score']} | {row['model']:.3f} | {row['random']:.3f} | {text} | {row[STRETCH]:.3f} |")
    return "\n".join(lines)


def main(words: list[str] | None = None) -> None:
    """The command."""
    made = argparse.ArgumentParser(prog="python -m benchmarks.minds_realism", description=__doc__)
    made.add_argument("day", type=Path, help="a day file or a LOBSTER zip file")
    made.add_argument("--config", default="two-stocks-week")
    made.add_argument("--count", type=int, default=20, help="minds of each persona")
    made.add_argument("--days", type=int, default=3)
    made.add_argument("--seeds", type=int, default=5)
    made.add_argument("--folder", type=Path, default=Path("runs/minds-realism"))
    made.add_argument("--json", action="store_true")
    with one_line_endings("the same command continues"):
        sys.stdout.write(studied(made.parse_args(words)))


def studied(options: argparse.Namespace) -> str:
    """Runs what is missing; the table, or JSON."""
    begin(options.folder, {"config": options.config, "count": options.count, "days": options.days})
    real = build_tape(load_day(options.day))
    markets, counts = [], []
    with Progress(console=Console(stderr=True), transient=True) as progress:
        for seed in progress.track(range(1, options.seeds + 1), description="seeds"):
            tapes = {}
            for kind in KINDS:
                config, place = configured(options.config, options.count, options.days, seed, kind)
                folder = options.folder / f"{kind}-{seed}"
                played(config, place, folder, partial(recorded, config, folder / RECORDED))
                tapes[kind] = tapes_of(folder / RECORDED, config, real.levels)
            tapes[STRETCH] = stretches(real, [len(tape) for tape in tapes["model"]], seed)
            markets.append({sample: distances(real, found) for sample, found in tapes.items()})
            counts.append({sample: counted(found) for sample, found in tapes.items()})
    rows = rows_of(markets)
    if options.json:
        return json.dumps({"rows": rows, "seeds": options.seeds, "markets": markets, "counts": counts})
    lines = [
        f"{sample}: "
        + ", ".join(f"{np.mean([one[sample][name] for one in counts]):,.0f} {name}" for name in counts[0][sample])
        for sample in SAMPLES
    ]
    return "\n".join([markdown(rows), "", f"Means of {options.seeds} seeds:", *lines, ""])


def counted(tapes: list[Tape]) -> dict[str, int]:
    """Of both stocks."""
    return {
        "messages": sum(len(tape) for tape in tapes),
        "trades": sum(int(tape.trades.sum()) for tape in tapes),
        "books with both sides": sum(int(tape.two_sided[1:].sum()) for tape in tapes),
    }


if __name__ == "__main__":
    main()
