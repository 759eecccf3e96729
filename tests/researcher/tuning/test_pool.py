"""The pool of scored modules: minibatches, winners, pairs, and experience on disk."""

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `researcher` is not installed")

from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.experience import Experience
from serl.researcher.tuning.pool import Pool, Scored
from serl.researcher.tuning.rewards import Measurement
from serl.researcher.tuning.store import read_experience, write_experience

RNG = np.random.default_rng(0)


def scored(token: int, value: float | None, error: float = 0.1, **changes: Any) -> Scored:
    module = Experience((1, token), (token, 9), value or 0.0, None, -1.0)
    score = None if value is None else Measurement(value, error, {f"x={token}": 1.0})
    return replace(Scored(module, "reward", f"candidate-{token}", "task", score), **changes)


def pool(rows: list[Scored], **settings: Any) -> Pool:
    values: dict[str, Any] = {"denoise": False, **settings}
    return Pool(rows, TuningConfig(**values))


def test_a_minibatch_has_fresh_and_earlier_modules() -> None:
    rows = [scored(token, float(token), fresh=token >= 30) for token in range(40)]
    batch = pool(rows, replay_kept=12).minibatch(8, RNG)
    tokens = [row.token_ids[0] for row in batch.rows]
    assert sum(token >= 30 for token in tokens) == 4 and min(tokens) >= 18, "of earlier ones the newest 12"
    assert len(set(tokens)) == 8
    assert all(
        (row.token_ids[0] > 28) == (advantage > 0) for row, advantage in zip(batch.rows, batch.advantage, strict=True)
    )


def test_scores_of_different_trainings_are_not_compared() -> None:
    rows = [scored(1, 1.0), scored(2, 2.0), scored(3, 101.0, group="longer"), scored(4, 102.0, group="longer")]
    batch = pool(rows, methods=("policy_gradient", "preference", "supervised")).minibatch(4, RNG)
    signs = {row.token_ids[0]: np.sign(advantage) for row, advantage in zip(batch.rows, batch.advantage, strict=True)}
    assert signs == {1: -1, 2: 1, 3: -1, 4: 1}
    assert {(better.token_ids[0], worse.token_ids[0]) for better, worse in batch.pairs} <= {(2, 1), (4, 3)}


def test_failures_are_the_worst_and_always_teach() -> None:
    rows = [scored(1, 1.0), scored(2, 1.0), scored(3, None)]
    batch = pool(rows).minibatch(3, RNG)
    found = {row.token_ids[0]: advantage for row, advantage in zip(batch.rows, batch.advantage, strict=True)}
    assert found == {1: 0.0, 2: 0.0, 3: -1.0}
    assert batch.strength == pytest.approx(np.sqrt(1 / 3))
    assert pool(rows[:2]).minibatch(3, RNG).strength == 0.0


def test_pairs_exceed_the_noise_and_are_diverse() -> None:
    near = [scored(1, 0.0), scored(2, 0.05), scored(3, 0.09)]
    assert not pool(near, methods=("preference",)).minibatch(8, RNG)
    far = [scored(1, 0.0), scored(2, 3.0), scored(3, 3.0), scored(4, 3.0)]
    alike = [replace(far[0], score=Measurement(0.0, 0.1, {"x=2": 1.0})), *far[1:]]
    batch = pool(alike, methods=("preference",)).minibatch(8, RNG)
    assert {(better.token_ids[0], worse.token_ids[0]) for better, worse in batch.pairs} == {(3, 1), (4, 1)}, (
        "not 2, which is alike"
    )
    assert all(better.prompt_ids == worse.prompt_ids for better, worse in batch.pairs)


def test_winners_are_better_than_the_mean_by_more_than_the_noise() -> None:
    rows = [scored(token, 5.0 * (token == 3)) for token in range(8)]
    found = pool(rows, methods=("supervised",)).minibatch(8, RNG)
    assert [row.token_ids[0] for row in found.winners] == [3]
    assert not pool([scored(token, 0.0) for token in range(8)], methods=("supervised",)).minibatch(8, RNG)


def test_experience_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = [scored(1, 1.0), scored(2, None), scored(3, 2.0, kind="agent")]
    path, grammars = tmp_path / "experience.jsonl", {"reward": None, "agent": None}
    write_experience(path, rows, "abc")
    assert read_experience(path, "abc", grammars) == [replace(row, fresh=False) for row in rows]
    with pytest.raises(TuningError, match=r"line 1: expected experience of the model xyz, got abc; .*use the model"):
        read_experience(path, "xyz", grammars)
    with pytest.raises(TuningError, match="line 3: expected one of the kinds reward, got agent"):
        read_experience(path, "abc", {"reward": None})
    with pytest.raises(TuningError, match="present form and schema of reward"):
        read_experience(path, "abc", {"reward": "another", "agent": None})
    path.write_text("nonsense\n")
    with pytest.raises(TuningError, match="line 1: expected a scored module"):
        read_experience(path, "abc", grammars)
    for part in ({"module": {}}, {"module": [1]}, {"score": {"value": 1.0}}, {"more": 1}):
        path.write_text(json.dumps({"model": "abc", **asdict(rows[0]), "grammar": None, **part}) + "\n")
        with pytest.raises(TuningError, match="line 1: expected a scored module"):
            read_experience(path, "abc", grammars)
    with pytest.raises(TuningError, match="expected a file of experience"):
        read_experience(tmp_path / "none", "abc", grammars)
