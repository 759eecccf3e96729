"""Small versions of the files that documentation pages use without creating them."""

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import yaml

from serl.agents.calibration.calibrate import write_population
from serl.agents.calibration.flow.population import flow_population
from serl.agents.traders.kinds.neural_flow import NeuralFlowProfile
from serl.history.day import Day, Reference, SymbolReference, write_day
from serl.history.generate import generate_day
from serl.history.itch.writer import write_itch
from serl.history.tardis_rows import BOOK_HEADER
from tests.agents.execution.test_data import rows as bar_rows
from tests.agents.execution.test_data import write as write_bars
from tests.doc_blocks import blocks
from tests.history import pitch_sample, test_coinapi, test_iex
from tests.history.test_itch_export import random_commands
from tests.history.test_tardis import BOOK as TARDIS_BOOK
from tests.history.test_tardis import random_day
from tests.history.test_tardis import text as tardis_text

QUICK_RUN: dict[str, Any] = {
    "iterations": 1, "candidates": 1, "workers": 1, "kinds": ["reward"], "max_tokens": 120,
    "low_level": False, "search": {"operators": ["fresh"], "ahead": 0},
    "budget": {"static_steps": 40, "dynamic_steps": 0},
    "inner": {
        "scored_in": "bars", "orders": 2, "rungs": [1.0],
        "market": {
            "kind": "static", "data": ["bars.parquet"], "environments": 4, "duration_s": 300, "interval_s": 60,
            "offset_ticks": 0, "offset_bps": 5, "levels": 1,
        },
        "ppo": {"rollout_steps": 5, "minibatch": 20, "threads": 1},
    },
}  # fmt: skip
"""Settings of a researcher run that takes seconds: one reward, which the model writes, trained and scored on a few bars."""


def _generated_day(seed: int) -> Callable[[Path], object]:
    return lambda path: write_day(generate_day(seed, "AMZN"), path)


def _flow(path: Path) -> None:
    """A generated flow as it is before its training."""
    write_population(flow_population(NeuralFlowProfile().numbers, "goog-flow", "0.01", 10_000.0), path)


def _itch(path: Path) -> None:
    """An ITCH file with two symbols."""
    reference = Reference((SymbolReference("AAPL"), SymbolReference("MSFT")), "", "generated", last_time_ns=3_000_000)
    write_itch(Day(random_commands(3000, 0), np.arange(3000), reference), path)


def _tardis(path: Path) -> None:
    rows, _, _ = random_day(1)
    path.write_bytes(gzip.compress(tardis_text(BOOK_HEADER, rows).encode()))


def _mbo(path: Path) -> None:
    from tests.history.test_dbn import FIRST, file_bytes  # skips the test without the extra `history`

    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(file_bytes(FIRST, ("A", "A", 6, 101, 3), ("C", "A", 6, 101, 3)))


def _iex(path: Path) -> None:
    path.write_bytes(gzip.compress(test_iex.pcap(test_iex.frames_of(test_iex.OPENING))))


def _pitch(path: Path) -> None:
    """Orders of both symbols that the page imports, captured."""
    orders = (pitch_sample.add(7, number, "B", 100, symbol, 10_000) for number, symbol in enumerate(("SPY", "QQQ"), 1))
    with pa.CompressedOutputStream(str(path), "zstd") as file:
        file.write(pitch_sample.capture(*orders))


def _pitch_text(path: Path) -> None:
    path.write_bytes(gzip.compress(f"S28800011A{pitch_sample.base_36(7)}B000100SPY   0000010000Y\n".encode()))


def _coinapi(path: Path) -> None:
    path.write_bytes(gzip.compress(test_coinapi.documented(test_coinapi.BID, test_coinapi.ASK).encode()))


def _run(path: Path, **settings: Any) -> None:
    write_bars(path.parent / "bars.parquet", bar_rows())
    path.write_text(yaml.safe_dump(settings | QUICK_RUN))


def _mine(path: Path) -> None:
    """The endpoint settings that the page shows."""
    (block,) = blocks("tutorials/run-the-researcher.md", "yaml")
    _run(path, **yaml.safe_load(block.text))


def _strategy(place: int) -> Callable[[Path], object]:
    """A strategy that the tutorial shows."""
    return lambda path: path.write_text(blocks("tutorials/backtest-a-bot.md", "python")[place].text)


FILES: dict[str, Callable[[Path], object]] = {
    "monday.day": _generated_day(1), "tuesday.day": _generated_day(2), "wednesday.day": _generated_day(3),
    "shocks.csv": lambda path: path.write_text("time,kind,symbol,headline,value\n09:45,value,DEMO,,10150\n"),
    "news.csv": lambda path: path.write_text("kind,symbol,headline,value\nmacro,,Rates unchanged,4.25\nvalue,DEMO,,10150\n"),
    "goog-flow.yaml": _flow, "mybot.py": _strategy(0), "quick.py": _strategy(2), "small.yaml": _run, "mine.yaml": _mine,
    "data_feeds_20200901_20200901_IEXTP1_DEEP1.0.pcap.gz": _iex, "bzx_20200924.pcap.zst": _pitch, "pitch_20200924.txt.gz": _pitch_text,
    f"{test_coinapi.NAME}.gz": _coinapi, f"{TARDIS_BOOK}.gz": _tardis, "01302019.NASDAQ_ITCH50.gz": _itch, "esh4-glbx-mdp3-20231225.mbo.dbn.zst": _mbo,
}  # fmt: skip
