"""In lockstep the tape is the same for any steps: random commands that expire, interrupt, halt and change phases, in one step and in many."""

from pathlib import Path

import numpy as np
import pytest

from serl.exchange.clock import Clock
from serl.exchange.config import ExchangeConfig
from serl.exchange.core import Core
from serl.exchange.gateway.state import LIVE
from serl.exchange.inbound import Inbound
from serl.exchange.lockstep import Lockstep
from serl.exchange.records import CommandFlag, CommandKind, Phase, Rows, Term, TimeInForce, command
from serl.exchange.schedule import Schedule
from tests.exchange.offline_exchange import ANN, BOB, EXCHANGE, SECOND_NS, entries

DAY = entries("00:00:05 pre_open", "00:00:09 continuous", "00:00:40 closing", "00:00:45 closed")
BANDS = {"band_ppm": 20_000, "reference_ticks": 1000, "band_action": "auction", "volatility_s": 2.5}
MARKETS: list[list[dict[str, object]]] = [
    [{"day": DAY, **BANDS}, {"auction_every_s": 1.5, "band_ppm": 30_000, "reference_ticks": 1000}],
    [{"day": DAY}, {}],
]
COMPARED = ["time_ns", "kind", "participant", "symbol", "order_id", "qty_lots", "price_ticks", "reason", "flags"]


def commands(rng: np.random.Generator, count: int) -> Rows:
    """COMMAND rows of a minute: orders, every tenth with an expiry, some with a stop price; cancellations, halts, phases, auctions."""
    parts: list[Rows] = []
    time_ns, ids = SECOND_NS, [1]
    for number in range(1, count + 1):
        time_ns += int(rng.integers(0, 3) * rng.integers(0, 300_000_000))
        who, symbol, kind, command_id = int(rng.choice([ANN, BOB])), int(rng.integers(2)), rng.random(), 2 * number
        own = {"participant": who, "time_ns": time_ns}
        order = {"symbol": symbol, "side": int(rng.integers(2)), "qty_lots": int(rng.integers(1, 4)), "command_id": command_id + 1, **own}  # fmt: skip
        operator = {"participant": EXCHANGE, "symbol": symbol, "time_ns": time_ns}
        price = 1000 + int(40 * np.sin(number / 50)) + int(rng.integers(-30, 30))
        if kind < 0.1:
            expiry_ns = time_ns + int(rng.integers(1, 3 * SECOND_NS))
            parts.append(
                command(CommandKind.TERM, flags=Term.EXPIRE_NS, price_ticks=expiry_ns, command_id=command_id, **own)
            )
            parts.append(command(CommandKind.NEW, price_ticks=price, time_in_force=TimeInForce.GTT, flags=CommandFlag.TERMS, **order))  # fmt: skip
        elif kind < 0.13:
            flags = int(CommandFlag.TERMS | CommandFlag.MARKET)
            parts.append(
                command(CommandKind.TERM, flags=Term.STOP_TICKS, price_ticks=price, command_id=command_id, **own)
            )
            parts.append(command(CommandKind.NEW, time_in_force=TimeInForce.GTC, flags=flags, **order))
        elif kind < 0.25:
            parts.append(command(CommandKind.CANCEL, order_id=int(rng.choice(ids[-10:])), command_id=command_id, **own))
        elif kind < 0.3:
            halts = [CommandKind.HALT, CommandKind.RESUME, CommandKind.RESUME, CommandKind.UNCROSS]
            parts.append(command(int(rng.choice(halts)), **operator))
        elif kind < 0.33:
            phases = [Phase.CONTINUOUS, Phase.CONTINUOUS, Phase.PRE_OPEN, Phase.INTRADAY]
            parts.append(command(CommandKind.PHASE, flags=int(rng.choice(phases)), **operator))
        else:
            parts.append(command(CommandKind.NEW, price_ticks=price, time_in_force=int(rng.integers(3)), **order))
        ids.append(command_id + 1)
    return np.concatenate(parts)


def events(folder: Path, market: list[dict[str, object]], rows: Rows, steps_ns: list[int]) -> Rows:
    """The events of the rows on a lockstep exchange whose only participant promises these times."""
    symbols = [{"name": f"S{number}", **symbol} for number, symbol in enumerate(market)]
    config = ExchangeConfig.model_validate({"clock": {"kind": "lockstep"}, "symbols": symbols})
    core = Core(config, folder)
    core.market.grant_operator(EXCHANGE)
    clock = Clock(core.gateway, config.clock, lambda: 0)
    inbound = Inbound(core, clock)
    lockstep = Lockstep(core, clock, inbound, lambda *_: True, lambda _: None, 0)
    schedule = Schedule(core, config, lambda: EXCHANGE, clock.now_ns, lambda: inbound.next_ns)
    schedule.start(config, {}, 0)
    lockstep.schedule = inbound.schedule = schedule
    core.gateway.status[0], core.gateway.participant[0] = LIVE, ANN
    inbound.append_recorded(rows.copy(), ANN)
    for step_ns in steps_ns:
        core.gateway.promise_ns[0] = step_ns
        while lockstep.time_ns < step_ns:
            lockstep.advance()
    found = core.journal.events_after(0, 1 << 20, core.gateway)
    assert found is not None
    core.close()
    return found.copy()


@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 40))])
@pytest.mark.parametrize("market", MARKETS, ids=["bands", "plain"])
def test_any_steps_make_the_same_tape(market: list[dict[str, object]], seed: int, tmp_path: Path) -> None:
    rng = np.random.default_rng(seed)
    rows = commands(rng, 400)
    end_ns = int(rows["time_ns"][-1]) + 5 * SECOND_NS
    whole = events(tmp_path / "1", market, rows, [end_ns])
    assert len(np.unique(whole["kind"])) >= 8
    for steps in (3, 60):
        times_ns = np.unique(rng.integers(1, end_ns, steps)).tolist()
        parts = events(tmp_path / str(steps), market, rows, [*times_ns, end_ns])
        assert whole[COMPARED].tolist() == parts[COMPARED].tolist()
