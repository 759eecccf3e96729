"""The order book alone, in process on one core, with the full feature set (ids, events, accounts, every check).

The stream has 1 M messages around a moving mid: 45 % add, 40 % cancel, 10 % marketable, 5 % replace, seed 1. For comparison, a bare book matches
the adds, cancels and market orders of the same stream by array index, without ids, events, accounts or checks.
"""

import itertools
import time
from typing import Any

import numpy as np

from benchmarks.bare_book import run_bare
from benchmarks.stream import KINDS, classify, make
from serl.exchange.kernel import DONE, execute_batch
from serl.exchange.market import Market
from serl.exchange.records import EVENT, Rows

MESSAGES, ROUNDS, BATCH, SEED = 1_000_000, 5, 256, 1
RESTING = (1_000, 10_000, 100_000, 1_000_000)


def _market(build: Rows, capacity: int) -> Market:
    market = Market(1)
    market.submit(build)
    while len(market.state.orders) < capacity:
        market.state = market.grown(market.state)
    return market


def _time_batches(market: Market, stream: Rows, batch: int) -> float:
    """Seconds for the whole stream in calls of `batch`."""
    events = np.zeros(1 << 17, EVENT)
    execute_batch(market.state, stream, 0, 0, events, 0)
    began = time.perf_counter()
    index = 0
    while index < len(stream):
        index, _, status = execute_batch(market.state, stream, index, min(index + batch, len(stream)), events, 0)
        assert status == DONE
    return time.perf_counter() - began


def _by_kind(resting: int) -> dict[str, float]:
    """ns per message by kind, from a stream sorted into runs of equal kind that are timed separately."""
    build, stream = make(200_000, resting, SEED, sort_runs=500)
    market = _market(build, resting + 400_000)
    kinds = classify(stream)
    edges = [0, *(np.flatnonzero(np.diff(kinds)) + 1).tolist(), len(stream)]
    events = np.zeros(1 << 17, EVENT)
    spent, counts = dict.fromkeys(KINDS, 0.0), dict.fromkeys(KINDS, 0)
    for start, stop in itertools.pairwise(edges):
        kind = KINDS[kinds[start]]
        began = time.perf_counter()
        execute_batch(market.state, stream, start, stop, events, 0)
        spent[kind] += time.perf_counter() - began
        counts[kind] += stop - start
    return {kind: spent[kind] / counts[kind] * 1e9 for kind in KINDS if counts[kind]}


def _bytes_per_order() -> float:
    build, _ = make(10, 1 << 20, SEED)
    market = Market(1)
    market.submit(build)
    state = market.state
    used = state.orders.nbytes + state.levels.nbytes + state.table.nbytes + state.window.nbytes + state.far_price.nbytes
    return used / len(market.orders())


def run() -> dict[str, Any]:
    """All figures. The two books alternate; medians over the rounds."""
    build, stream = make(MESSAGES, 1_000, SEED)
    run_bare(stream[:1000])
    ours, bare = [], []
    for _ in range(ROUNDS):
        ours.append(_time_batches(_market(build, 600_000), stream, BATCH))
        bare.append(run_bare(stream))
    flat = {}
    for resting in RESTING:
        book, messages = make(MESSAGES, resting, SEED)
        flat[str(resting)] = _time_batches(_market(book, resting + 600_000), messages, BATCH) / MESSAGES * 1e9
    return {
        "msgs_per_s_batch256": MESSAGES / float(np.median(ours)),
        "bare_numba_msgs_per_s": MESSAGES / float(np.median(bare)),
        "ratio_to_bare_numba": float(np.median(bare)) / float(np.median(ours)),
        "ns_by_resting_orders": flat,
        "ns_by_kind": _by_kind(10_000),
        "bytes_per_resting_order": _bytes_per_order(),
    }
