"""The searches without a model that the researcher is compared with."""

import json
from pathlib import Path
from statistics import fmean

import numpy as np
import optuna
import pytest

from serl.researcher.candidates import Candidate, Module, Result
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import baselines, run, uniform
from serl.researcher.outer.records import EvaluatedCandidate
from tests.researcher.outer.small import Arithmetic, config_of, content, pa_of

KINDS = (Kind.REWARD, Kind.POLICY)


def searched(folder: Path, proposer: str, seed: int, iterations: int = 12, candidates: int = 8) -> list[float]:
    """The scores of a run's candidates, in the order of the proposals."""
    config = config_of(proposer=proposer, seed=seed, iterations=iterations, candidates=candidates)
    database = run.begin(folder, config, "test", resume=False)
    run.research(config, folder, database, Arithmetic())
    rows = database.rows("SELECT pa_bps FROM candidates WHERE slot < ? ORDER BY iteration, slot", candidates)
    database.close()
    return [row["pa_bps"] for row in rows if row["pa_bps"] is not None]


@pytest.mark.long
@pytest.mark.parametrize("proposer", ["tpe", "climb"])
def test_they_learn_from_scores(proposer: str, tmp_path: Path) -> None:
    late = [fmean(searched(tmp_path / f"{seed}", proposer, seed)[-32:]) for seed in range(2)]
    drawn = [fmean(searched(tmp_path / f"random-{seed}", "random", seed)[-32:]) for seed in range(2)]
    assert min(late) > max(drawn) + 20, "in bps, where a uniform draw has a deviation of 30 or so"


@pytest.mark.long
def test_a_run_can_be_cut_anywhere(tmp_path: Path) -> None:
    whole = config_of(proposer="tpe", iterations=5, candidates=6, seed=3)
    for folder, parts in ((tmp_path / "whole", [5]), (tmp_path / "cut", [2, 5])):
        for part in parts:
            config = whole.model_copy(update={"iterations": part})
            database = run.begin(folder, config, "test", resume=part != parts[0])
            run.research(config, folder, database, Arithmetic())
            found = content(database)
            database.close()
        if folder.name == "whole":
            expected = found
    assert found == expected


def test_an_earlier_candidate_is_told_to_the_estimator_as_the_choices_that_make_it() -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        text = uniform.draw(Kind.POLICY, rng)
        one = EvaluatedCandidate(
            1, 0, Candidate({Kind.POLICY: Module("spec", text)}), Result("done", "", None, None, {}), 1.5
        )
        trial = baselines._trial(optuna, one, KINDS)
        assert trial.value == 1.5 and trial.params["reward"] == "default" and trial.params["policy"] == "new"
        again = uniform.chosen(Kind.POLICY, lambda path, options: trial.params["/".join(map(str, ("policy", *path)))])  # noqa: B023
        assert json.dumps(again) == text


def test_the_climb_changes_the_best(tmp_path: Path) -> None:
    config = config_of(proposer="climb", iterations=20, candidates=1, seed=1)
    database = run.begin(tmp_path, config, "test", resume=False)
    run.research(config, tmp_path, database, Arithmetic())
    parents = [
        row["parents"] for row in database.rows("SELECT parents FROM candidates WHERE slot = 0 ORDER BY iteration")
    ]
    best = database.evaluated(99, 1)[0]
    database.close()
    assert parents[0] == "[]" and all(each != "[]" for each in parents[1:])
    assert pa_of(best.candidate) > 0
