"""Latency models: their draws and their errors."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.exchange.clock import Clock
from serl.exchange.config import load_config
from serl.exchange.core import Core
from serl.exchange.errors import ConfigError
from serl.exchange.gateway.state import STAGED
from serl.exchange.inbound import Inbound
from serl.exchange.latency import Constant, Delays, Empirical, Latencies, Lognormal
from serl.exchange.outbound import DelayQueue
from serl.exchange.records import ALL_SYMBOLS, CommandKind, Reason, Rows, command

DRAWS = 200_000
NUMBERS = np.arange(1, DRAWS + 1)


def draws_us(model: Constant | Lognormal | Empirical, seed: int = 7, name: str = "ann") -> "np.ndarray[Any, Any]":
    return Delays(model, seed, "orders", name).draw_ns(NUMBERS) / 1000


def test_a_constant_model_draws_its_delay() -> None:
    assert set(draws_us(Constant(kind="constant", delay_us=12.5))) == {12.5}


def test_lognormal_draws_have_their_median_and_sigma() -> None:
    logs = np.log(draws_us(Lognormal(kind="lognormal", median_us=300, sigma=0.5)))
    assert np.median(logs) == pytest.approx(np.log(300), abs=4 * 0.5 * 1.2533 / DRAWS**0.5)
    assert logs.std() == pytest.approx(0.5, rel=4 / (2 * DRAWS) ** 0.5)
    shifted = (logs - np.log(300)) / 0.5
    assert np.mean(shifted**3) == pytest.approx(0, abs=4 * (15 / DRAWS) ** 0.5)
    assert np.mean(shifted**4) == pytest.approx(3, abs=4 * (96 / DRAWS) ** 0.5)
    assert abs(np.corrcoef(logs[1:], logs[:-1])[0, 1]) < 4 / DRAWS**0.5


def test_a_floor_raises_low_delays_and_keeps_the_median() -> None:
    drawn = draws_us(Lognormal(kind="lognormal", median_us=300, sigma=0.5, floor_us=200))
    assert drawn.min() == 200
    assert np.median(drawn) == pytest.approx(300, rel=0.01)


def test_a_file_is_drawn_from_with_replacement(tmp_path: Path) -> None:
    file = tmp_path / "delays.txt"
    file.write_text("100\n100.5\n7e2\n100\n")
    values, counts = np.unique(draws_us(Empirical(kind="empirical", file=file)), return_counts=True)
    assert values.tolist() == [100, 100.5, 700]
    assert counts / DRAWS == pytest.approx(np.array([0.5, 0.25, 0.25]), abs=0.01)


def test_a_draw_depends_only_on_seed_direction_name_and_number() -> None:
    model = Lognormal(kind="lognormal", median_us=300, sigma=0.5)
    whole = draws_us(model)
    single = [Delays(model, 7, "orders", "ann").draw_ns(np.array([number]))[0] for number in (1, 500, 90)]
    assert single == [round(whole[number - 1] * 1000) for number in (1, 500, 90)]
    other = [
        draws_us(model, seed=8),
        draws_us(model, name="bob"),
        Delays(model, 7, "feed", "ann").draw_ns(NUMBERS) / 1000,
    ]
    for drawn in other:
        assert abs(np.corrcoef(np.log(whole), np.log(drawn))[0, 1]) < 4 / DRAWS**0.5


def test_a_delay_queue_keeps_the_order() -> None:
    line = DelayQueue(Delays(Lognormal(kind="lognormal", median_us=300, sigma=2), 1, "feed", "ann"))
    times_ns = np.arange(1000) * 1000
    line.put(times_ns[:500], np.arange(500), range(500))
    line.put(times_ns[500:], np.arange(500, 1000), range(500, 1000))
    seen: list[int] = []
    while len(seen) < 1000:
        now_ns = line.next_ns
        assert line.pop_due(now_ns - 1) == []
        items = line.pop_due(now_ns)
        assert items
        assert all(times_ns[item] <= now_ns for item in items)
        seen += items
    assert seen == list(range(1000))


def test_an_account_has_its_own_latency_or_the_default() -> None:
    config = load_config(
        overrides={
            "latency": {"seed": 3, "orders": {"kind": "constant", "delay_us": 50}},
            "accounts": {"near": {"latency": {}}, "far": {"latency": {"feed": {"kind": "constant", "delay_us": 900}}}},
        }
    )
    latencies = Latencies(config.latency, config.latencies)
    given = {name: (latencies.orders(name), latencies.feed(name)) for name in ("near", "far", "other")}
    drawn = {
        name: [None if each is None else int(each.draw_ns(NUMBERS[:1])[0]) for each in both]
        for name, both in given.items()
    }
    assert drawn == {"near": [None, None], "far": [None, 900_000], "other": [50_000, None]}
    assert not config.needs_full_rule_book


def test_a_cancel_on_disconnect_comes_after_what_is_executed_before_it(tmp_path: Path) -> None:
    """Time does not go back, and of one participant what it sent before comes before, what it sends after comes after."""
    config = load_config(overrides={"symbols": [{"name": "A"}]})
    core = Core(config, tmp_path)
    inbound = Inbound(core, Clock(core.gateway, config.clock, lambda: 0))
    inbound.open(0, 0, Delays(Constant(kind="constant", delay_us=0), 0, "orders", "ann"))

    def new(command_id: int, time_ns: int, participant: int = 0) -> Rows:
        fields = {"qty_lots": 1, "price_ticks": 50, "command_id": command_id, "participant": participant}
        return command(CommandKind.NEW, **fields, time_ns=time_ns)

    def stage(row: Rows) -> None:
        core.gateway.staged[int(core.gateway.counter[STAGED])] = row[0]
        core.gateway.counter[STAGED] += 1

    stage(new(7, 1))
    inbound.append_for_exchange(command(CommandKind.MASS_CANCEL, symbol=ALL_SYMBOLS, reason=Reason.DISCONNECT))
    stage(new(8, inbound.last_ns(0)))  # of the next session
    later_ns = inbound.last_ns(0) + 10**9
    core.submit(new(1, later_ns, participant=1))
    inbound.execute(later_ns + 1, core.time_ns)
    rows = core.journal.commands_after(0, 9, core.gateway)
    assert rows is not None and rows["time_ns"].tolist() == [later_ns] * 4
    assert rows["command_id"].tolist() == [1, 7, 0, 8] and not inbound.has_commands
    assert core.market.orders()["order_id"].tolist() == [1, 8]
    core.close()


@pytest.mark.parametrize(
    ("model", "word"),
    [
        ({"kind": "constant", "delay_us": -1}, "delay_us"),
        ({"kind": "constant", "delay_us": float("nan")}, "delay_us"),
        ({"kind": "constant", "delay_us": 4e9}, "delay_us"),
        ({"kind": "constant"}, "delay_us"),
        ({"kind": "lognormal", "median_us": 0, "sigma": 1}, "median_us"),
        ({"kind": "lognormal", "median_us": 10, "sigma": -1}, "sigma"),
        ({"kind": "lognormal", "median_us": 10, "sigma": float("inf")}, "sigma"),
        ({"kind": "lognormal", "median_us": 10, "sigma": 1, "floor_us": -2}, "floor_us"),
        ({"kind": "gamma", "delay_us": 1}, "constant"),
        ({"kind": "empirical"}, "file"),
        ({"delay_us": 1}, "kind"),
    ],
)
def test_invalid_models_are_errors(model: dict[str, object], word: str) -> None:
    for where in ({"latency": {"orders": model}}, {"accounts": {"ann": {"latency": {"feed": model}}}}):
        with pytest.raises(ConfigError, match=word):
            load_config(overrides=where)


@pytest.mark.parametrize(
    ("text", "word"),
    [("", "got an empty file"), ("5\nnan\n", ":2:.*'nan'"), ("5\n6\n-1\n", ":3:.*'-1'"), ("5\n\n6\n", ":2:.*''"), ("fast\n", ":1:.*'fast'"), ("inf\n", ":1:")],
)  # fmt: skip
def test_invalid_lines_are_reported_by_number(text: str, word: str, tmp_path: Path) -> None:
    file = tmp_path / "delays.txt"
    file.write_text(text)
    config = load_config(
        overrides={"accounts": {"ann": {"latency": {"orders": {"kind": "empirical", "file": str(file)}}}}}
    )
    with pytest.raises(ConfigError, match=f"delays.txt{word}" if word.startswith(":") else word):
        Latencies(config.latency, config.latencies)


def test_a_missing_delay_file_is_an_error(tmp_path: Path) -> None:
    config = load_config(overrides={"latency": {"feed": {"kind": "empirical", "file": str(tmp_path / "none.txt")}}})
    with pytest.raises(ConfigError, match=r"none.txt: .* cannot be read"):
        Latencies(config.latency, config.latencies)
