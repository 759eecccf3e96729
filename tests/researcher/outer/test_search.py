"""Search without a model: it finds what scores well where uniform draws do not, and a team of operators is told apart in the report."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from serl.exchange.errors import ConfigError
from serl.researcher.candidates import Candidate, Module, Result
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import run, uniform
from serl.researcher.outer.mutation import mutate
from serl.researcher.outer.records import EvaluatedCandidate
from serl.researcher.outer.report import write_report
from serl.researcher.outer.surrogate_draft import best_of_pool, expected_improvement
from serl.researcher.tuning.surrogate import Posterior
from tests.researcher.outer.small import config_of, score_of

NUMBERS = ("take_percent", "rest_percent", "late_percent", "finish_percent")
PLACES = {"take_percent": [0, 10, 25, 50, 75, 100, 150], "rest_percent": [0, 50, 100, 200, 400, 800, 3000],
          "late_percent": [0, 2, 5, 10, 20, 50, 100], "finish_percent": [0, 2, 5, 10, 20, 30, 50]}  # fmt: skip


def smooth(candidates: Any, folder: Path) -> list[Result]:
    """Best where each number is at the sixth of its choices and there are no terms: 0; less by a bps for each choice beside."""
    results = []
    for one in candidates:
        spec = json.loads(one.modules[Kind.POLICY].text)
        distance = sum(abs(PLACES[name].index(spec[name]) - 5) for name in NUMBERS) + len(spec["terms"])
        score = dataclasses.replace(score_of(-float(distance)), unfilled=spec["take_percent"] / 150)
        results.append(Result("done", "", score, None, {}))
    return results


def test_the_surrogate_operator_expects_more_of_better_rules() -> None:
    rng = np.random.default_rng(0)
    drawn = [Candidate({Kind.POLICY: Module("spec", uniform.draw(Kind.POLICY, rng))}) for _ in range(60)]
    results = smooth(drawn, Path())
    scores = [one.score.pa_bps for one in results if one.score]
    known = [EvaluatedCandidate(1, slot, one, result, score) for slot, (one, result, score) in enumerate(zip(drawn, results, scores, strict=True))]  # fmt: skip
    parent = drawn[int(np.argsort(scores)[30])].modules[Kind.POLICY].text
    made = [best_of_pool(Kind.POLICY, parent, {}, known, [], uniform.draw, rng) for _ in range(20)]
    mutated = [mutate(Kind.POLICY, parent, rng) for _ in range(20)]
    true = [[one.score.pa_bps for one in smooth([Candidate({Kind.POLICY: Module("spec", text)}) for text in texts], Path()) if one.score] for texts in (made, mutated)]  # fmt: skip
    assert np.mean(true[0]) > np.mean(true[1]) + 2, "the parent is a middling one"
    assert np.mean(true[0]) > np.quantile(scores, 0.9)


def test_expected_improvement_is_that_of_the_definition() -> None:
    found = Posterior(np.array([0.0, 1.0, -1.0]), np.array([1.0, 0.0, 2.0]), 0.1)
    draws = np.random.default_rng(0).normal(found.mean, found.sd, (200_000, 3))
    assert expected_improvement(found, 0.5) == pytest.approx(np.maximum(draws - 0.5, 0).mean(0), abs=0.01)


def best_of(folder: Path, proposer: str, seed: int) -> float:
    config = config_of(proposer=proposer, kinds=["policy"], iterations=10, candidates=6, seed=seed, search={"ahead": 0})
    database = run.begin(folder, config, "test", resume=False)
    run.research(config, folder, database, smooth)
    best = database.one("SELECT max(pa_bps) FROM candidates")
    database.close()
    return float(best)


def test_the_first_candidates_are_drawn_uniformly(tmp_path: Path) -> None:
    """Beyond the first iteration, in which there is nothing else to do without a model."""

    def operators_of(drawn_first: int) -> list[str]:
        search = {"ahead": 0, "drawn_first": drawn_first}
        config = config_of(proposer="search", kinds=["policy"], iterations=5, candidates=4, seed=1, search=search)
        database = run.begin(tmp_path / str(drawn_first), config, "test", resume=False)
        run.research(config, tmp_path / str(drawn_first), database, smooth)
        rows = database.rows("SELECT operator FROM attempts WHERE used ORDER BY iteration, slot")
        database.close()
        return [row["operator"] for row in rows]

    drawn, chosen = operators_of(10), operators_of(0)
    assert set(drawn[:10]) == {"uniform"}
    assert set(drawn[10:]) - {"uniform"} and set(chosen[4:10]) - {"uniform"}, "elsewhere others have their turn"


def test_what_is_drawn_first_must_be_among_the_operators() -> None:
    with pytest.raises(ConfigError, match=r"search.drawn_first: expected uniform among search.operators, got fresh"):
        config_of(proposer="dek", search={"drawn_first": 3, "operators": ["fresh"]})


@pytest.mark.long
def test_search_beats_uniform_draws_where_neighbours_are_alike(tmp_path: Path) -> None:
    gaps = [
        best_of(tmp_path / f"search-{seed}", "search", seed) - best_of(tmp_path / f"random-{seed}", "random", seed)
        for seed in range(3)
    ]
    assert sum(gaps) > 0 and min(gaps) >= 0, gaps
    found = write_report(tmp_path / "search-0", tmp_path / "report.html")
    rows = {row["operator"]: row for row in found["operators"]}
    assert set(rows) == {"cross", "mutate", "surrogate", "uniform"}
    for operator in ("mutate", "surrogate"):
        assert rows[operator]["mean_difference_bps"] > rows["uniform"]["mean_difference_bps"]
    assert sum(row["candidates"] for row in rows.values()) == 60


def test_kinds_stay_at_the_incumbent(tmp_path: Path) -> None:
    config = config_of(proposer="search", kinds=[], iterations=6, candidates=4, search={"kept": 0.8})

    def evaluate(candidates: Any, folder: Path) -> list[Result]:
        return [Result("done", "", score_of(float(int(one.key[:4], 16))), None, {}) for one in candidates]

    database = run.begin(tmp_path, config, "test", resume=False)
    run.research(config, tmp_path, database, evaluate)
    rows = {(row["iteration"], row["slot"]): row for row in database.rows("SELECT * FROM candidates")}
    drafts = database.rows("SELECT iteration, slot, count(*) AS n FROM modules GROUP BY iteration, slot")
    assert 1 <= sum(row["n"] for row in drafts) / len(drafts) < 2.5, "one or a few kinds are new"
    inherited = 0
    for row in rows.values():
        new = {
            one["kind"]
            for one in database.rows(
                "SELECT kind FROM modules WHERE iteration = ? AND slot = ?", row["iteration"], row["slot"]
            )
        }
        kept = set(json.loads(row["modules"])) - new
        parents = [json.loads(rows[tuple(place)]["modules"]) for place in json.loads(row["parents"])]
        inherited += len(kept)
        assert all(any(json.loads(row["modules"])[kind] == parent.get(kind) for parent in parents) for kind in kept)
    assert inherited > 10
    database.close()
