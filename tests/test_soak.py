"""The soak: its verdicts on made-up samples, its traders against what they are told, and a short one."""

import itertools
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.soak import PLAN
from benchmarks.soak_flow import LAST_ACK, LAST_REPORT, LIVE, NEXT_ID, REFUSED_ID, new_sessions, quiet_symbols
from benchmarks.soak_link import Link
from benchmarks.soak_report import WARM_UP_SHARE, draw, growth_json, journal_growth, lives, load_kept
from benchmarks.soak_verdict import JUDGED_HOURS, growth, life, theil_sen
from serl.exchange.wire import Kind

HOUR_S, EVERY_S = 3600, 10


def noise(seed: int = 1, count: int = HOUR_S // EVERY_S) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Neighbours resemble each other, as samples of a process do."""
    steps, values = np.random.default_rng(seed).normal(0, 1, count), np.zeros(count)
    for index in range(1, count):
        values[index] = 0.8 * values[index - 1] + steps[index]
    return values


def samples(percent_per_h: float = 0.0, descriptors_per_h: float = 0.0, seed: int = 1) -> list[dict[str, float]]:
    """An hour of a process of 200 MB after ten minutes in which it grew to that."""
    found = [
        {"time_s": 100.0 + at, "memory_mb": at / 6, "rss_mb": at / 5, "descriptors": at / 30, "threads": 4.0}
        for at in range(0, 600, EVERY_S)
    ]
    for at, wiggle in zip(range(0, HOUR_S, EVERY_S), noise(seed), strict=True):
        memory = 200 * (1 + percent_per_h / 100 * at / HOUR_S) + 0.1 * wiggle
        descriptors = 240 + round(descriptors_per_h * at / HOUR_S) + at // EVERY_S % 3
        found.append({"time_s": 700.0 + at, "memory_mb": memory, "rss_mb": memory + 100, "descriptors": descriptors, "threads": 4.0})  # fmt: skip
    return found


def test_slope_of_a_line_with_outliers() -> None:
    hours = np.linspace(0, 1, 50)
    values = 3 + 2 * hours
    values[::7] += 100
    assert theil_sen(hours, values) == pytest.approx(2)


@pytest.mark.parametrize("slope", [-5.0, 0.0, 5.0])
def test_intervals_contain_the_slope_of_correlated_noise(slope: float) -> None:
    hours = np.arange(HOUR_S // EVERY_S) * EVERY_S / HOUR_S
    inside = 0
    for seed in range(6):
        found = growth(hours, slope * hours + noise(seed))
        assert found is not None and found.low <= found.per_hour <= found.high
        inside += found.low <= slope <= found.high
    assert inside >= 4


def test_a_short_life_has_no_slope() -> None:
    assert growth([0, 0.1, 0.2], [1, 2, 3]) is None
    assert growth([1.0] * 20, [1.0] * 20) is None
    assert life("a", samples()[:3], 600).broken() == []


def test_what_grows_in_the_warm_up_alone_holds() -> None:
    steady = life("exchange 1", samples(), 600)
    assert steady.broken() == []
    assert steady.hours == pytest.approx(1, abs=0.01) and steady.memory_mb == pytest.approx(200, abs=1)
    assert steady.memory_percent is not None and abs(steady.memory_percent.per_hour) < 0.5
    with_warm_up = life("exchange 1", samples()[:120], 0).memory_percent
    assert with_warm_up is not None and with_warm_up.low > 1


def test_short_lives_are_not_judged() -> None:
    leaking = samples(percent_per_h=30)
    assert life("exchange 1", leaking, 600).broken()
    assert life("exchange 1", leaking[:200], 600).broken() == []


def test_leaks_break_their_promise() -> None:
    (memory, resident) = life("exchange 1", samples(percent_per_h=3), 600).broken()
    assert memory.startswith("exchange 1: memory grows by 2.9") and resident.startswith("exchange 1: resident memory")
    (descriptors,) = life("exchange 1", samples(descriptors_per_h=6), 600).broken()
    assert "descriptors grows by 6" in descriptors or "descriptors grows by 5" in descriptors


def run_samples() -> list[dict[str, Any]]:
    """Two processes of the exchange, of which the second leaks, between them none."""
    found = []
    for number, percent in ((1, 0.0), (2, 4.0)):
        for one in samples(percent):
            moved = one["time_s"] + (number - 1) * 5000
            found.append({"time_s": moved, "life": number, "exchange": {**one, "processor_s": 1.0}, "dashboard": {}, "metrics": {}})  # fmt: skip
        found.append({"time_s": moved + 10, "life": number, "exchange": {}, "dashboard": {}, "metrics": {}})
    return [one | {"live": 200, "commands_per_s": 1e4, "p50_us": None, "p99_us": 3.0, "journal_mb": 900.0} for one in found]  # fmt: skip


@pytest.mark.long
def test_each_process_is_judged_on_its_own(tmp_path: Path) -> None:
    first, second = lives(run_samples())
    assert first.broken() == [] and second.broken()[0].startswith("exchange 2: memory")
    assert growth_json([first])[0]["memory_percent_per_h"][0] == pytest.approx(0, abs=0.5)
    assert journal_growth(run_samples(), 1000) == [] and "900 MB" in journal_growth(run_samples(), 899)[0]
    assert load_kept(run_samples(), 10_500) == [] and "10,000" in load_kept(run_samples(), 12_000)[0]
    draw(tmp_path / "soak.svg", run_samples(), [{"time_s": 60, "name": "kill", "text": ""}])
    assert (tmp_path / "soak.svg").read_text().count("kill") == 1


def test_the_plan_has_the_first_of_every_event_in_the_warm_up_of_its_longest_life() -> None:
    restarts = [0.0, *(share for share, name in PLAN if name in ("stop", "kill")), 1.0]
    began, ended = max(itertools.pairwise(restarts), key=lambda pair: pair[1] - pair[0])
    warm = began + (600 / 7200)
    first = {name for share, name in PLAN if began < share < warm}
    later = {name for share, name in PLAN if warm <= share < ended}
    assert first == later == {"pause exchange", "long pause", "pause traders", "kill traders", "end of day"}
    assert 2 * (ended - warm) > JUDGED_HOURS
    assert {name for share, name in PLAN if share < WARM_UP_SHARE} == {name for _, name in PLAN}
    assert [share for share, _ in PLAN] == sorted(share for share, _ in PLAN)


def link(counts: "Counter[str]", notes: list[str], acknowledged: int, sent: int, report: int) -> tuple[Link, Any]:
    row = new_sessions(1, 2, 1)[0]
    row[LAST_ACK], row[NEXT_ID], row[LAST_REPORT] = acknowledged, sent + 1, report
    return Link("tcp://127.0.0.1:1", "ann", row, counts, notes), row


def welcome(last_command: int, next_report: int, epoch: int = 2) -> list[Any]:
    return [int(Kind.WELCOME), 1, epoch, 7, next_report, last_command, [], [], {}, False]


@pytest.mark.parametrize(
    ("message", "lost"),
    [
        (welcome(20, 31), 0),
        (welcome(25, 31), 0),
        (welcome(19, 31), 1),  # an acknowledged command is gone
        (welcome(26, 31), 1),  # one that was never sent
        (welcome(20, 30), 1),  # a report is gone
        (welcome(20, 32), 1),  # a report is left out
    ],
)
def test_a_welcome_is_compared_with_what_the_client_knows(message: list[Any], lost: int) -> None:
    counts: Counter[str] = Counter()
    notes: list[str] = []
    client, row = link(counts, notes, acknowledged=20, sent=25, report=30)
    client.receive(message, 0.0)
    assert counts["lost"] == lost == len(notes) and row[LIVE] == 1
    assert row[REFUSED_ID] == 25  # commands that got lost on the way do not fill the window


def test_reports_of_what_the_exchange_has_must_arrive() -> None:
    counts: Counter[str] = Counter()
    client, row = link(counts, [], acknowledged=20, sent=25, report=30)
    client.receive(welcome(25, 31), 0.0)
    client.check_answers(1e6)
    assert counts["lost"] == 1
    client.receive(welcome(25, 31), 0.0)
    row[LAST_ACK] = 25
    client.check_answers(1e6)
    assert counts["lost"] == 1


def test_unknown_errors_are_not_expected() -> None:
    counts: Counter[str] = Counter()
    notes: list[str] = []
    client, _ = link(counts, notes, 0, 0, 0)
    assert client.receive([int(Kind.ERROR), "throttled", "later"], 0.0) == "throttled"
    assert counts["unexpected"] == 0
    client.receive([int(Kind.ERROR), "replay_gone", "too late"], 0.0)
    client.receive([int(Kind.GOODBYE), "kill", "out"], 0.0)
    assert counts["unexpected"] == 2 == len(notes)


def test_few_sessions_share_the_quiet_symbols() -> None:
    symbols = new_sessions(200, 8, 1)[:, 8]
    assert set(symbols.tolist()) == set(range(8))
    assert np.isin(symbols, quiet_symbols(8)).mean() == 0.1


@pytest.mark.long
def test_a_short_soak_holds(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "benchmarks", "soak", "--hours", "0.02", "--json", str(tmp_path / "soak.json"), "--sessions", "16",
        "--processes", "2", "--symbols", "4", "--rate", "2000", "--sample-s", "1", "--segment-rows", "16384", "--no-growth",
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    result = json.loads((tmp_path / "soak.json").read_text())
    assert result["ended"] == "complete" and result["broken"] == []
    assert [event["name"] for event in result["events"]] == ["load", *(name for _, name in PLAN)]
    figures = result["figures"]
    assert figures["starts"] == 5 and figures["acknowledged"] > 10_000 and figures["checked after restarts"] > 20
    assert (
        figures["books compared"] and figures["error throttled"] and figures["goodbye shutdown"] and figures["scrapes"]
    )
    assert (tmp_path / "soak" / "soak.svg").exists()
