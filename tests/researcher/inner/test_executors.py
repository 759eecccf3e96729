"""Training on a Ray cluster gives what training here gives."""

import sys
from pathlib import Path

import pytest

from serl.extras import MissingPackageError
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.inner.evaluate import evaluate_many
from serl.researcher.inner.executors import trainer
from serl.researcher.inner.race_config import Race, Stage
from serl.researcher.inner.settings import Settings
from serl.researcher.modules.contracts import Form, Kind
from serl.researcher.modules.example import example


def test_without_ray_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(MissingPackageError, match=r"pip install -e '\.\[ray\]'"):
        trainer("ray")


@pytest.mark.long  # Ray gives its own start 30 s, and a dozen processes on two busy cores need more
@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("form", ["code", "spec"])
def test_ray_gives_the_same(form: Form, settings: Settings, tmp_path: Path) -> None:
    ray = pytest.importorskip("ray", reason="the extra `ray` is not installed")
    candidates = [
        Candidate({Kind.REWARD: Module(form, example(Kind.REWARD, form))}),
        Candidate({Kind.REWARD: Module("code", "import numpy as np\ndef reward(step):\n    return step.gain_bps[:0]")}),
    ]
    once = Race(stages=(Stage(share=1, seeds=1),))
    whole, budget = settings.model_copy(update={"race": once}), Budget(400, 160, wall_s=400)
    incumbent = candidates[0] if form == "spec" else None  # one training on each side; the long case has two at once
    try:
        there = evaluate_many(candidates, whole, budget, tmp_path / "ray", 2, on="ray", incumbent=incumbent)
    finally:
        ray.shutdown()
    here = evaluate_many(candidates, whole, budget, tmp_path / "local", 2, incumbent=incumbent)
    assert [result.stage for result in there] == ["done", "dry run"]
    assert [result.score for result in there] == [result.score for result in here]
