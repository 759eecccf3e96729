"""All of it for real: the tiny model writes, candidates are trained and scored on a served exchange, weights and prompts learn."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `researcher` is not installed")
pytest.importorskip("xllamacpp", reason="the extra `researcher` is not installed")

import torch

from serl.agents.learning.files import read
from serl.agents.learning.policy import load_policy
from serl.researcher.llm.models import MODELS
from serl.researcher.outer import run
from serl.researcher.outer.config import LowLevel, OuterConfig, load_config, parse_config
from serl.researcher.outer.low_level import ADAPTER, LowLevelTuning
from serl.researcher.outer.report import write_report
from serl.researcher.tuning.base import dequantised_folder
from serl.researcher.tuning.tuner import KIND, Tuner
from tests.researcher.outer.small import Arithmetic, content

pytestmark = pytest.mark.skipif(
    not dequantised_folder(MODELS["tiny"].path).exists(),
    reason="needs the model in fp32: serl llm fetch tiny, serl llm unpack tiny",
)


def smallest(seed: int) -> OuterConfig:
    """Settings of a run. With most seeds the scores of the two modules differ by less than their noise, so there is no update."""
    values = load_config(Path("default")).model_dump(mode="json") | {"seed": seed}
    values |= {"iterations": 1, "candidates": 2, "kinds": ["reward"]}
    values["search"] |= {"operators": ["fresh", "rewrite"], "ahead": 0}  # the model writes each candidate
    values["budget"] |= {"static_steps": 640, "dynamic_steps": 320, "wall_s": 400}
    values["low_level"] = {"modules_max": 1, "uniform_share": 0.5, "updates_per_iteration": 1, "threads": 1}
    values["inner"] |= {"orders": 2, "folds": 0, "race": {"stages": [{"share": 1, "seeds": 1}], "final_seeds": 2}}
    values["inner"]["market"] |= {"environments": 4, "duration_s": 60}
    values["inner"]["dynamic"] |= {
        "environments": 4,
        "duration_s": 60,
        "simulated_days": 4,
        "hours": "09:35-09:45",
        "population": "small",
    }
    values["inner"]["ppo"] |= {"rollout_steps": 30, "minibatch": 60}
    return parse_config(values, "smallest")


@pytest.mark.parametrize(("iterations", "seed"), [(1, 13), pytest.param(4, 5, marks=pytest.mark.long)])
def test_a_run_from_the_model_to_the_exchange_and_back(iterations: int, seed: int, tmp_path: Path) -> None:
    """With more iterations the run is interrupted after the first. With seed 5 the model, tuned by then, writes a module again in the fourth; with
    seed 13 both modules of the first are short."""
    config = smallest(seed)
    database = run.begin(tmp_path, config, "test", resume=False)
    assert run.research(config, tmp_path, database) == "its iteration is done"
    rows = database.rows("SELECT * FROM candidates")
    assert [row["stage"] for row in rows] == ["done"] * 3, "two proposals and the incumbent"
    for row in rows:
        assert len(json.loads(row["score"])["advantages_bps"]) == 2
        load_policy(tmp_path / row["policy"])
    facts = json.loads(database.rows("SELECT facts FROM iterations")[0]["facts"])
    assert facts["step"] == facts["updates"] == 1 and facts["modules"] == 2 and facts["gradient_norm"] > 0
    assert {path.name for path in (tmp_path / "tuning").iterdir()} >= {"adapter.safetensors", "experience.jsonl"}
    kept = database.rows("SELECT * FROM candidates")

    database.close()
    if iterations > 1:
        longer = config.model_copy(update={"iterations": iterations})
        database = run.begin(tmp_path, longer, "test", resume=True)
        run.research(longer, tmp_path, database)
        models = [row["model"] for row in database.rows("SELECT model FROM iterations ORDER BY iteration")]
        assert models[0] == "tiny" and models[-1].startswith("tiny+"), "the tuned model is served"
        assert [tuple(row) for row in database.rows("SELECT * FROM candidates WHERE iteration = 1")] == [
            tuple(row) for row in kept
        ]
        database.close()
    found = write_report(tmp_path, tmp_path / "report.html", final=True)
    assert found["test"]["score"]["orders"] == 4, "two trainings on fresh seeds, two orders each"
    assert found["iterations"][0]["tuning"]["step"] == 1


class Killed(BaseException):
    """As SIGKILL: nothing is caught, nothing is tidied."""


def test_a_kill_after_the_last_update_loses_nothing_that_other_runs_start_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def one() -> LowLevelTuning:
        tuning = object.__new__(LowLevelTuning)
        tuning.config, tuning._folder, tuning._imported = LowLevel(), tmp_path, []
        tuner: Any = SimpleNamespace(stopped=None, save=Path.touch, resume=lambda path: None)
        tuning._tuner = tuner
        return tuning

    def kill(*_: object) -> None:
        raise Killed

    monkeypatch.setattr(LowLevelTuning, "scored", lambda *_: [SimpleNamespace(fresh=True)])
    monkeypatch.setattr(LowLevelTuning, "_update", lambda *_: {"step": 2})
    monkeypatch.setattr(LowLevelTuning, "_serve", lambda *_: None)
    author: Any = SimpleNamespace(name="tiny")
    with monkeypatch.context() as patched, pytest.raises(Killed):
        patched.setattr(LowLevelTuning, "_export", kill)
        one()._learn(1, author)
    monkeypatch.setattr(LowLevelTuning, "_export", lambda self, rows: (self._folder / ADAPTER).touch())
    assert one()._learn(1, author)["step"] == 2
    assert (tmp_path / ADAPTER).exists()


POINTS: dict[str, tuple[type, str]] = {
    "the state is saved": (Tuner, "save"),
    "its figures are kept": (LowLevelTuning, "_prune_states"),
}
"""What was done last."""


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_a_kill_between_update_and_end_of_the_iteration_updates_once(
    point: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, arithmetic = smallest(6), Arithmetic()  # the model writes in both iterations
    owner, name = POINTS[point]
    done, state = getattr(owner, name), tmp_path / "tuning" / "after-00001.safetensors"

    def killed(*arguments: object) -> None:
        done(*arguments)
        raise Killed

    database = run.begin(tmp_path, config, "test", resume=False)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, killed)
        with pytest.raises(Killed):
            run.research(config, tmp_path, database, arithmetic)
    assert database.iterations_done == 0
    database.close()
    before, facts = read(state, KIND)

    longer, learn, updates = config.model_copy(update={"iterations": 2}), Tuner.learn, list[int]()

    def counted(tuner: Tuner, batch: Any) -> Any:
        updates.append(tuner.step)
        return learn(tuner, batch)

    monkeypatch.setattr(Tuner, "learn", counted)
    database = run.begin(tmp_path, longer, "test", resume=True)
    run.research(longer, tmp_path, database, arithmetic)
    known = point != "the state is saved"
    assert updates == ([1] if known else [0, 1]), "an update whose figures are kept is not done again"
    after, again = read(state, KIND)
    assert again == facts
    for key, values in before.items():
        torch.testing.assert_close(after[key], values)
    rows = database.rows("SELECT model, facts FROM iterations ORDER BY iteration")
    assert [json.loads(row["facts"])["step"] for row in rows] == [1, 2]
    assert rows[1]["model"].startswith("tiny+"), "the tuned model served the second iteration"
    asked = [
        key for key in arithmetic.asked if key != config.incumbent_candidate.key
    ]  # it trains beside the first proposals
    assert len(asked) == len(set(asked))

    monkeypatch.setenv("SERL_MODELS", "/nowhere")
    again_folder = tmp_path / "again"
    again_folder.mkdir()
    shutil.copy(tmp_path / run.RECORD, again_folder)
    replayed = run.begin(again_folder, longer, "test", resume=False)
    run.research(longer, again_folder, replayed, Arithmetic(), offline=True)
    assert content(replayed) == content(database)
    replayed.close()
    database.close()
