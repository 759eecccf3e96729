"""The losses of the methods on a small random model, and adapters."""

from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="the extra `researcher` is not installed")

import torch

from serl.agents.learning.errors import PolicyFileError
from serl.researcher.tuning.adapter import save_adapter, start_from
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.experience import Experience
from serl.researcher.tuning.pool import Minibatch
from serl.researcher.tuning.tuner import Tuner
from tests.researcher.tuning.small import small_tuner

pytestmark = pytest.mark.skipif(find_spec("peft") is None, reason="the extra `researcher` is not installed")
GOOD, BAD, OTHER = (
    Experience((3, 1), tokens, value) for tokens, value in (((5, 6), 1.0), ((7, 2), -1.0), ((4, 4), 0.0))
)


def moved(tuner: Tuner, batch: Minibatch, updates: int = 15) -> torch.Tensor:
    """Changes of log p of the good, the bad and the other module."""
    before = tuner.log_p([GOOD, BAD, OTHER])
    for _ in range(updates):
        tuner.learn(batch)
    return tuner.log_p([GOOD, BAD, OTHER]) - before


def test_the_preference_loss_is_that_of_dpo() -> None:
    tuner = small_tuner(kl_weight=0.0, preference_beta=0.5, learning_rate=0.02, gradient_norm_max=1e9)
    reference = tuner.log_p([GOOD, BAD])
    first = tuner.learn(Minibatch(pairs=((GOOD, BAD),)))
    assert first.loss == pytest.approx(torch.log(torch.tensor(2.0)).item()), "-log σ(0) at the start"
    log_p = tuner.log_p([GOOD, BAD])
    margin = 0.5 * ((log_p[0] - reference[0]) - (log_p[1] - reference[1]))
    assert margin > 0
    assert tuner.learn(Minibatch(pairs=((GOOD, BAD),))).loss == pytest.approx(
        float(-torch.nn.functional.logsigmoid(margin)), rel=1e-4
    )


def test_preferences_separate_a_pair() -> None:
    change = moved(small_tuner(learning_rate=0.02), Minibatch(pairs=((GOOD, BAD),)))
    assert change[0] - change[1] > 2


def test_winners_are_imitated() -> None:
    change = moved(small_tuner(learning_rate=0.02), Minibatch(winners=(GOOD,)))
    assert change[0] > 1 and change[0] > change[1] + 1


def test_losses_are_added() -> None:
    tuner = small_tuner(kl_weight=0.0)
    rows, pairs = Minibatch((GOOD, BAD), (1.0, -1.0)), Minibatch(pairs=((GOOD, OTHER),))
    grads = []
    for batch in (rows, pairs, Minibatch(rows.rows, rows.advantage, (), pairs.pairs)):
        made = small_tuner(kl_weight=0.0, gradient_norm_max=1e9)
        made.learn(batch)
        grads.append([tensor.grad.clone() for tensor in made.trained().values() if tensor.grad is not None])
    for first, second, both in zip(*grads, strict=True):
        torch.testing.assert_close(both, first + second, rtol=1e-4, atol=1e-7)
    with pytest.raises(TuningError, match="got none"):
        tuner.learn(Minibatch())


def test_the_step_is_as_large_as_the_evidence() -> None:
    sizes = []
    for advantage in (1.0, 0.01):
        tuner = small_tuner(kl_weight=0.0)
        before = [tensor.detach().clone() for tensor in tuner.trained().values()]
        update = tuner.learn(Minibatch((GOOD, BAD), (advantage, -advantage)))
        assert update.strength == pytest.approx(advantage)
        sizes.append(
            max(
                float((new.detach() - old).abs().max())
                for new, old in zip(tuner.trained().values(), before, strict=True)
            )
        )
    assert sizes[1] == pytest.approx(0.01 * sizes[0], rel=0.05), "Adam alone would move as far"


def test_an_adapter_is_where_the_next_run_starts(tmp_path: Path) -> None:
    path, tuner = tmp_path / "adapter.safetensors", small_tuner(learning_rate=0.02)
    moved(tuner, Minibatch(winners=(GOOD,)))
    save_adapter(tuner, path, {"tasks": ["bars"], "candidates": 3})
    following = small_tuner(learning_rate=0.02)
    metadata = start_from(following, path)
    assert (metadata["updates"], metadata["facts"]["candidates"], metadata["methods"]) == (15, 3, ["policy_gradient"])
    torch.testing.assert_close(following.log_p([GOOD, BAD]), tuner.log_p([GOOD, BAD]))
    assert following.learn(Minibatch(winners=(GOOD,))).kl == pytest.approx(0.0, abs=1e-5), "KL is relative to the start"


def test_an_adapter_of_another_model_or_shape_is_refused(tmp_path: Path) -> None:
    path, tuner = tmp_path / "adapter.safetensors", small_tuner()
    save_adapter(tuner, path, {})
    other = small_tuner()
    object.__setattr__(other.base, "sha256", "f" * 64)
    with pytest.raises(TuningError, match=r"expected an adapter of the model small \(ffffffffffff\), got one of small"):
        start_from(other, path)
    with pytest.raises(TuningError, match=r"'rank': 2.*got.*'rank': 4.*same settings"):
        start_from(small_tuner(rank=2), path)
    tuner.save(tmp_path / "state.safetensors")
    with pytest.raises(PolicyFileError, match=r"expected an? adapter"):
        start_from(tuner, tmp_path / "state.safetensors")
