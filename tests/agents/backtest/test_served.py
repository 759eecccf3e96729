"""Strategies on a live exchange."""

from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from serl.agents.backtest.served import run_compiled
from serl.agents.traders.registry import load_kind
from serl.cli import serl as command
from serl.clients.blocking import connect
from serl.clients.errors import SessionEnded
from tests.agents.backtest import sample
from tests.server_fixture import start_exchange


def run_file(folder: Path, source: str, endpoint: str, *options: str) -> Result:
    """`serl run` of a strategy, in a file."""
    (folder / "mine.py").write_text(source)
    return CliRunner().invoke(command, ["run", str(folder / "mine.py"), "--connect", endpoint, *options])


TAKER = """
import serl

class Taker(serl.Strategy):
    interval_s = 0.02

    def on_start(self, market):
        self.crossing = market.buy("DEMO", 5, 10_200, post_only=True)
        self.resting = market.buy("DEMO", 1, 9_000)

    def on_wake(self, market):
        if len(market.open_orders()) == 1 and not market.position("DEMO"):
            self.bought = market.buy("DEMO", 3)

    def on_fill(self, market, fill):
        bids, asks = market.book("DEMO", 2)
        assert [level.price_ticks for level in bids] == [10_000, 9_000] and asks[0].qty_lots == 997
        assert market.trades("DEMO", 1)[0].qty_lots == fill.qty_lots == 3
        print(self.crossing.state, self.crossing.reason, self.resting.state, self.bought.state)
        raise KeyboardInterrupt
"""


def test_strategies_trade_on_a_live_exchange(tmp_path: Path) -> None:
    """One in Python until Ctrl-C, then a compiled one for a second of its day."""
    with start_exchange(symbols="DEMO") as served, connect(served.endpoint, "maker") as maker:
        maker.buy("DEMO", 1000, 10_000)
        maker.sell("DEMO", 1000, 10_100)
        done = run_file(tmp_path, TAKER, served.endpoint)
        assert done.exit_code == 0, (done.output, done.exception)
        assert "rejected WOULD_CROSS open done" in done.output
        assert "DEMO: position +3 lots, profit -1.50" in done.output
        assert "rejected: 1 WOULD_CROSS (the order is post-only and would trade at once)" in done.output
        while maker.book("DEMO")[0][-1].price_ticks == 9_000:  # its order is cancelled when it leaves
            maker.wait(0.01)
        assert maker.position("DEMO") == -3
        outcome = run_compiled(load_kind(sample.pulse.__name__), served.endpoint, (0, 10**9))
        assert outcome.decisions > 1 and outcome.fills == len(maker.fills()) - 1
        while len(maker.book("DEMO")[0]) + len(maker.book("DEMO")[1]) > 2:
            maker.wait(0.01)


HASTY = """
import serl

class Hasty(serl.Strategy):
    interval_s = 0.02

    def on_wake(self, market):
        sent = [market.buy("DEMO", 1, 9_000) for _ in range(10)]
        refused = [order for order in sent if order.state == "rejected"]
        market.cancel(sent[0]), market.mass_cancel()
        print(len(sent), {order.reason for order in refused}, sent[0].state)
        raise KeyboardInterrupt
"""


def test_a_strategy_that_is_too_fast_for_its_account_goes_on(tmp_path: Path) -> None:
    """The first order beyond the rate ended the run with a traceback's last line."""
    config: dict[str, object] = {"accounts": {"hasty": {"messages_per_s_max": 3}}}
    with start_exchange(symbols="DEMO", config=config, folder=tmp_path) as served:
        done = run_file(tmp_path, HASTY, served.endpoint, "--name", "hasty")
    assert done.exit_code == 0, (done.output, done.exception)
    assert "10 {'throttled'} done" in done.output
    assert "throttled (docs/protocol.md, Error codes)" in done.output


HASTY_IN_LOCKSTEP = """
import serl
from serl.exchange.terms import Terms

class Hasty(serl.Strategy):
    interval_s = 1

    def on_start(self, market):
        self.sent = []

    def on_wake(self, market):
        kinds = [{}, {"terms": Terms(stop_ticks=11_000)}]
        states = [order.reason or order.state for order in self.sent]
        print("decision", market.decisions, len(market.open_orders()), sorted(set(states)), states.count("throttled"))
        self.sent += [market.buy("DEMO", 1, 9_000, **kind) for kind in kinds for _ in range(3)]
"""


def test_a_strategy_that_is_too_fast_in_lockstep_goes_on(tmp_path: Path) -> None:
    """No call waits there for the answer to an order: the refusal ended the next turn, and the run."""
    accounts = {"hasty": {"messages_per_s_max": 1}}
    config: dict[str, object] = {"clock": {"kind": "lockstep", "participants": 1}, "accounts": accounts}
    with start_exchange(symbols="DEMO", clock="", config=config, folder=tmp_path) as served:
        done = run_file(
            tmp_path, HASTY_IN_LOCKSTEP, served.endpoint, "--name", "hasty", "--window", "10:00:00-10:00:02"
        )
    assert done.exit_code == 0, (done.output, done.exception)
    assert "decision 0 0 [] 0" in done.output and "decision 1 1 ['open', 'throttled'] 5" in done.output
    assert "Hasty: 2 decisions, 0 fills" in done.output
    assert "throttled (docs/protocol.md, Error codes)" in done.output


BRIEF = """
import serl

class Brief(serl.Strategy):
    interval_s = 0.02

    def on_wake(self, market):
        raise KeyboardInterrupt
"""


def test_a_run_takes_the_session_of_one_that_crashed(tmp_path: Path) -> None:
    with start_exchange(symbols="DEMO") as served, connect(served.endpoint, "strategy") as crashed:
        refused = run_file(tmp_path, BRIEF, served.endpoint)
        assert "'strategy' has a live session" in str(refused.exception)
        done = run_file(tmp_path, BRIEF, served.endpoint, "--replace")
        assert done.exit_code == 0 and "Brief: 0 decisions" in done.output, (done.output, done.exception)
        with pytest.raises(SessionEnded, match="replaced"):
            crashed.wait(5)
