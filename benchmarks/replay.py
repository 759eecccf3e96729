"""A LOBSTER day played through the exchange: its duration, and the number of rows after which the book differs from the file's (expected: 0).

Every row of the file is compared, on every level of both sides. Needs the sample files in ../shared/data/lobster.
"""

import time
from pathlib import Path
from typing import Any

import numpy as np

from serl.clients.replay import Replayer
from serl.exchange.limits import MarketLimits
from serl.exchange.market import Market
from serl.exchange.wire import Kind
from serl.history.lobster import read_lobster
from serl.history.lobster_day import book_view, lobster_day
from serl.history.verify import market_of, verify
from tests.server_fixture import start_exchange

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data" / "lobster"
SAMPLES = {
    "goog": "LOBSTER_SampleFile_GOOG_2012-06-21_10.zip",
    "amzn": "LOBSTER_SampleFile_AMZN_2012-06-21_5.zip",
    "amzn_touch": "LOBSTER_SampleFile_AMZN_2012-06-21_1.zip",
}
ROUNDS = 5


def in_process(folder: Path = FOLDER) -> dict[str, Any]:
    """Seconds to import and to play each day in process, medians with everything compiled, and rows that differ."""
    figures: dict[str, Any] = {}
    for name, file in SAMPLES.items():
        lobster_day(read_lobster(folder / file))  # compiles
        began = time.perf_counter()
        source = read_lobster(folder / file)
        day = lobster_day(source)
        figures[f"{name}_import_s"] = time.perf_counter() - began
        seconds = []
        for _ in range(ROUNDS):
            market, commands = market_of(day)
            began = time.perf_counter()
            market.submit(commands)
            seconds.append(time.perf_counter() - began)
        result = verify(day, *book_view(source))
        figures[f"{name}_in_process_s"] = float(np.median(seconds))
        figures[f"{name}_commands"] = len(day)
        figures[f"{name}_rows"] = result.rows
        figures[f"{name}_rows_differing"] = result.differing
        figures[f"{name}_unexplained"] = result.unexplained
    return figures


def served(folder: Path = FOLDER) -> dict[str, Any]:
    """Seconds to play the AMZN day into an exchange process, every command answered; its state hash must be ours."""
    day = lobster_day(read_lobster(folder / SAMPLES["amzn"]))
    seconds, equal = [], True
    for _ in range(ROUNDS):
        with start_exchange(symbols="AMZN", clock="lockstep") as exchange:
            replayer = Replayer(day, exchange.endpoint)
            began = time.perf_counter()
            replayer.run(lambda _: None)
            seconds.append(time.perf_counter() - began)
            answer = replayer.client.ask(Kind.HASH)[5]
            replayer.close()
        market = Market(["AMZN"], limits=MarketLimits(participants_max=1024))
        market.grant_operator(0)
        market.submit(day.commands)
        equal &= answer[1] == market.state_hash()
    return {"amzn_served_s": float(np.median(seconds)), "amzn_served_hash_equals_in_process": equal}


def run() -> dict[str, Any]:
    """All figures of replay; says so where there are no sample files."""
    if not all((FOLDER / file).exists() for file in SAMPLES.values()):
        return {"skipped": "no LOBSTER sample files in ../shared/data/lobster"}
    return in_process() | served()
