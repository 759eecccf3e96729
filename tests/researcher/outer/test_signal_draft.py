"""Rules drawn of what predicts the price."""

import json
from collections import Counter
from pathlib import Path

import numpy as np

from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import run, signal_draft, uniform
from serl.researcher.outer.database import Database
from serl.researcher.outer.report import write_report
from serl.researcher.outer.signal_draft import SOONER, WEIGHT_PERCENT_MIN
from serl.researcher.signals import Signal
from serl.researcher.validation.validate import validate
from tests.researcher.outer.small import Arithmetic, config_of

SIGNALS = {"drift": Signal(-4.7, -12.0), "imbalance": Signal(0.4, 8.0), "spread": Signal(0.1, 1.0)}


def test_rules_are_valid_and_trade_sooner_what_is_about_to_lose() -> None:
    rng = np.random.default_rng(0)
    drawn = [signal_draft.draw(SIGNALS, rng) for _ in range(300)]
    assert all(validate(Kind.POLICY, text, "spec").ok for text in drawn)
    terms = [term for text in drawn for term in json.loads(text)["terms"]]
    for term in terms:
        if term["observed"] in ("drift", "imbalance") and term["shape"] != "square":
            sooner = SOONER[term["output"]] * term["weight_percent"] > 0
            assert sooner == (term["observed"] == "drift") and abs(term["weight_percent"]) >= WEIGHT_PERCENT_MIN
    counts = Counter(term["observed"] for term in terms)
    assert counts["drift"] > 5 * counts["spread"] > 0, "what predicts nothing is drawn too, seldom"
    assert len({term["weight_percent"] for term in terms if term["observed"] == "spread"}) > 5
    uniformly = Counter(term["observed"] for _ in range(300) for term in json.loads(uniform.draw(Kind.POLICY, rng))["terms"])  # fmt: skip
    assert counts["drift"] > 3 * uniformly["drift"]


def origins(folder: Path, signals: dict[str, Signal], **search: object) -> tuple[list[str], Database]:
    """How the rules of a run were made, in order."""
    settings: dict[str, object] = {"ahead": 0, "drawn_first": 6}
    config = config_of(proposer="search", kinds=["policy"], iterations=4, candidates=6, search=settings | search)
    database = run.begin(folder, config, "test", resume=False)
    database.set_signals(signals)
    run.research(config, folder, database, Arithmetic())
    return [row["origin"] for row in database.rows("SELECT origin FROM modules ORDER BY id")], database


def test_the_first_candidates_are_drawn_of_signals_and_later_ones_may_be(tmp_path: Path) -> None:
    made, database = origins(tmp_path / "signals", SIGNALS)
    assert made[:6] == ["signal"] * 6 and {"signal", "mutate"} <= set(made[6:])
    assert database.signals == SIGNALS
    found = write_report(tmp_path / "signals", tmp_path / "report.html", final=False)
    assert [row["observation"] for row in found["signals"]] == ["drift", "imbalance"], "the surest first, without noise"
    assert "<h2>Signals</h2>" in (tmp_path / "report.html").read_text()
    assert "signal" not in origins(tmp_path / "without", {"spread": SIGNALS["spread"]})[0], "a t of 1 is noise"
    older = [one for one in config_of().search.operators if one != "signal"]
    assert origins(tmp_path / "older", SIGNALS, operators=older)[0][:6] == ["uniform"] * 6, (
        "runs of earlier versions continue as they began"
    )
