"""A replayed day on an exchange with a lockstep clock: the follower sees what the day has, and everybody can read the forecasts."""

import json
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
from click.testing import CliRunner

from serl.agents.realism.tape import SECOND_NS
from serl.agents.signals.cli import signals
from serl.agents.signals.errors import SignalError
from serl.agents.signals.grid import STEP_NS, build_grid
from serl.agents.signals.inputs import Inputs, day_inputs
from serl.agents.signals.live import LiveForecaster, Observation
from serl.agents.signals.message import Forecast
from serl.agents.signals.publish import Publication, publish_to
from serl.clients.blocking import connect
from serl.clients.replay_accounts import create_replayer
from serl.exchange.errors import ExchangeUnreachable
from serl.exchange.news import News, NewsKind
from serl.exchange.records import CommandKind, command
from serl.history.generate import generate_day
from tests.agents.realism.sample import SELL, TEN_NS
from tests.agents.signals import sample
from tests.server_fixture import start_exchange

END_NS = TEN_NS + 64 * SECOND_NS
LOCKSTEP: dict[str, object] = {"clock": {"kind": "lockstep", "participants": 2}}


class Noting(LiveForecaster):
    """Remembers the features of each time."""

    seen: ClassVar[dict[int, Inputs | None]] = {}

    def observe(self, seen: Observation) -> Inputs | None:
        found = super().observe(seen)
        self.seen[seen.time_ns] = found and found._replace(books=found.books.copy())
        return found


@pytest.mark.long
def test_the_feed_gives_the_features_of_the_day_and_the_forecasts_are_news(tmp_path: Path) -> None:
    day = generate_day(1, "AMZN", start_ns=TEN_NS, end_ns=END_NS)
    day.commands["time_ns"] -= day.commands["time_ns"] % (STEP_NS // 2)  # half of the events are exactly at the times
    printed = command(
        CommandKind.PRINT, side=SELL, price_ticks=10_000, qty_lots=999, time_ns=int(day.commands["time_ns"][500])
    )
    for name in ("command_id", "order_id"):
        day.commands[name] *= 2  # leaves a number between any two commands
    printed["command_id"] = int(day.commands["command_id"][500]) + 1
    day = replace(day, commands=np.insert(day.commands, 501, printed), rows=np.insert(day.rows, 501, day.rows[500]))
    grid, forecaster = build_grid(day), sample.forecaster()
    whole, _ = day_inputs(grid)
    with start_exchange(symbols="AMZN", clock="", config=LOCKSTEP, folder=tmp_path) as served:
        replayer = create_replayer(day, served.endpoint, None)
        replay = threading.Thread(target=replayer.run, args=(lambda _: None,))
        replay.start()
        with connect(served.endpoint, "signals") as client:
            publication = Publication(client, forecaster, "AMZN", 0.5, "attention", "model")
            live = publication.forecaster = Noting(forecaster, "attention", "model")
            run = partial(publication.run, from_ns=TEN_NS, until_ns=END_NS)
            made = list(publish_to(served.endpoint, "", None, True, run))
        replay.join(60)
        replayer.close()
        with connect(served.endpoint, "reader") as reader:
            published = reader.news(count=100)
    assert sum(inputs is not None for inputs in live.seen.values()) > 30
    for row, last in enumerate(whole.last.tolist()):
        inputs = live.seen[int(grid.time_ns[last])]
        assert inputs is not None and inputs.features.tobytes() == whole.features[row].tobytes()
        assert (inputs.windows(slice(None)) == whole.windows(slice(row, row + 1))).all()
    assert publication.published == len(made) == len(published) >= 7
    assert [message.kind for message in published] == [NewsKind.SIGNAL] * len(made)
    assert [Forecast.from_news(message) for message in published] == made
    of_the_day = [one for one in made if one.time_ns <= grid.time_ns[-1]]
    rows = np.searchsorted(grid.time_ns[whole.last], [one.time_ns for one in of_the_day])
    inputs = whole.chosen(rows)
    expected = forecaster.probabilities(inputs, "attention")
    assert np.array([one.probabilities for one in of_the_day]) == pytest.approx(expected, abs=1e-4)
    assert np.array([one.volumes_lots for one in of_the_day]) == pytest.approx(
        forecaster.volumes(inputs.features), abs=0.06
    )
    assert np.array([one.fills for one in of_the_day]) == pytest.approx(forecaster.fills(inputs.features), abs=1e-4)
    assert {one.time_ns // STEP_NS % 5 for one in made} == {0}
    assert 0 < live.seconds / live.observed < 1e-3, "at most 1 ms"


def test_an_exchange_with_other_ticks_is_refused(tmp_path: Path) -> None:
    sample.forecaster().write(tmp_path / "f")
    with (
        start_exchange(symbols="AMZN=0.1") as served,
        pytest.raises(SignalError, match=r"expected a tick size of 0\.01"),
    ):
        signals(["publish", str(tmp_path / "f"), "--connect", served.endpoint], standalone_mode=False)


def test_a_live_clock_prints_and_publishes(tmp_path: Path) -> None:
    """On a live clock the first minute gives no forecast; what cannot be is refused in one line."""
    path = tmp_path / "f"
    sample.forecaster().write(path)
    with start_exchange(symbols="AMZN,DEMO", clock="scaled:50") as served:
        for options, message in (
            (["--symbol", "X"], "expected one of AMZN, DEMO, got X"),
            (["--every", "0.15"], "expected a multiple of 0.1 s up to 86400, got 0.15"),
            (["--every", "nan"], "expected a multiple of 0.1 s up to 86400, got nan"),
            (["--every", "1e300"], "expected a multiple of 0.1 s up to 86400, got 1e[+]300"),
            (["--every", "0.1"], "expected at most 100 messages per second .* got 500"),
        ):
            with pytest.raises(SignalError, match=message):
                CliRunner().invoke(
                    signals, ["publish", str(path), "--connect", served.endpoint, *options], catch_exceptions=False
                )
        with connect(served.endpoint, "maker") as maker:
            maker.buy("AMZN", 10, price_ticks=9_990)
            maker.sell("AMZN", 10, price_ticks=10_010)
            for seconds in (150, 1_500):  # the second only where the machine does much else
                with connect(served.endpoint, f"watch{seconds}") as watch:
                    until_s = (watch.session.clock[2] - watch.session.clock[3]) // SECOND_NS + seconds
                at = f"{until_s // 3600:02}:{until_s // 60 % 60:02}:{until_s % 60:02}"
                result = CliRunner().invoke(
                    signals, ["publish", str(path), "--connect", served.endpoint, "--print", "--until", at],
                    catch_exceptions=False,
                )  # fmt: skip
                lines = [json.loads(line) for line in result.stdout.splitlines()]
                if len(lines) >= 3:
                    break
            assert len(lines) >= 3 and lines[0]["mid_ticks"] == 10_000 and lines[0]["symbol"] == "AMZN"
            assert f"printed {len(lines)} forecasts" in result.stderr and maker.news() == []


def test_an_exchange_that_is_gone_is_noticed() -> None:
    with start_exchange(symbols="AMZN", clock="scaled:100") as served, connect(served.endpoint, "maker") as maker:
        maker.buy("AMZN", 10, price_ticks=9_990)
        maker.sell("AMZN", 10, price_ticks=10_010)
        forecasts = Publication(maker, sample.forecaster(), "AMZN", 1.0, None, "f").run(lambda _: True)
        assert next(forecasts).mid_ticks == 10_000
        served.kill()
        with pytest.raises(ExchangeUnreachable, match="no reply from"):
            list(forecasts)


def forecast() -> Forecast:
    shares = ((0.2, 0.5, 0.3), (0.25, 0.25, 0.5))
    return Forecast("AMZN", 5, 100.5, (1.0, 10.0), (0.0, 1.5), shares, "f", (12.5, 100.0), ((0.1, 0.2), (0.3, 0.4)))


def test_a_message_has_the_forecast_for_programs_and_for_people() -> None:
    message = forecast().to_news()
    assert Forecast.from_news(message) == forecast()
    assert message.headline == "Forecast AMZN, 1 s: down 0.20 flat 0.50 up 0.30; 10 s: down 0.25 flat 0.25 up 0.50"
    body = json.loads(message.body)
    assert body["up"] == [0.3, 0.5] and body["volumes_lots"] == [12.5, 100.0] and body["fill_sell"] == [0.2, 0.4]
    older = {key: value for key, value in body.items() if not key.startswith(("volumes", "fill"))}
    assert Forecast.from_news(message._replace(body=json.dumps(older))) == forecast()._replace(
        volumes_lots=(), fills=()
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("up", [0.3]), ("up", [0.9, 0.5]), ("up", [float("nan"), 0.5]), ("up", "ab"), ("up", None), ("horizons_s", []),
        ("time_ns", 1.5), ("mid_ticks", "x"), ("thresholds_ticks", [1]), ("volumes_lots", [1.0]), ("volumes_lots", [-1.0, 1.0]),
        ("fill_buy", [0.5, 1.5]), ("fill_sell", None),
    ],
)  # fmt: skip
def test_other_messages_are_no_forecasts(key: str, value: object) -> None:
    message = forecast().to_news()
    with pytest.raises(SignalError, match="message 0: expected a forecast, got"):
        Forecast.from_news(message._replace(body=json.dumps(forecast().to_json() | {key: value})))


def test_news_is_no_forecast() -> None:
    for other in (
        News(1, 0, NewsKind.NEWS, "", "x", "", None, ""),
        News(1, 0, NewsKind.SIGNAL, "", "x", "[" * 9999, None, ""),
    ):
        with pytest.raises(SignalError, match="message 1: expected a forecast"):
            Forecast.from_news(other)
