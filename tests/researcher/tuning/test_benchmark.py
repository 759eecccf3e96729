"""The benchmark of tuning: its truth, its samples and its intervals are what it says they are."""

from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `researcher` is not installed")
pytest.importorskip("llguidance", reason="the extra `researcher` is not installed")

from benchmarks import tuning, tuning_model
from serl.researcher.llm.requests import grammar_of
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.specs import json_schema, parse
from serl.researcher.outer import uniform

pytestmark = pytest.mark.skipif(find_spec("peft") is None, reason="the extra `researcher` is not installed")


def test_the_true_score_has_unit_deviation_and_depends_on_the_seed() -> None:
    rng = np.random.default_rng(3)
    texts = [uniform.draw(Kind.REWARD, rng) for _ in range(400)]
    truth, other = tuning.Truth(Kind.REWARD, 1), tuning.Truth(Kind.REWARD, 2)
    found = [truth(text) for text in texts]
    assert abs(np.mean(found)) < 0.2 and 0.8 < np.std(found) < 1.2
    assert found == [truth(text) for text in texts]
    assert abs(np.corrcoef(found, [other(text) for text in texts])[0, 1]) < 0.6


def test_the_interval_is_students() -> None:
    assert tuning.half_interval([1.0, 2.0, 3.0, 4.0, 5.0]) == pytest.approx(2.776 * np.sqrt(2.5 / 5), rel=0.01)
    assert np.isnan(tuning.half_interval([1.0]))


@pytest.mark.long
def test_a_method_learns_from_valid_modules_of_the_policy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tuning_model, "STEPS", 5)
    monkeypatch.setattr(tuning_model, "TEXTS", 200)
    monkeypatch.setattr(tuning, "SAMPLES", 4)
    base = tuning_model.small_base(Kind.REWARD)
    study = tuning.Study(Kind.REWARD, base, (0,), 1.0, 1, 2, {"learning_rate": 1e-3})
    tuner = study.fresh_tuner()
    ids = tuning_model.sampled(tuner, (0,), grammar_of(json_schema(Kind.REWARD)), 4, np.random.default_rng(0))
    for row in ids:
        parse(Kind.REWARD, base.tokenizer.decode(row))
    found = {method: [tuning.run(study, method, seed) for seed in (0, 1)] for method in ("none", "gradient+supervised")}
    assert [row["updates"] for row in found["gradient+supervised"]] == [2, 2]
    assert found["none"] == [tuning.run(study, "none", seed) for seed in (0, 1)], "no run changes the base"
    assert "gradient+supervised" in tuning.table(found)
