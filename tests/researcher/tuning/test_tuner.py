"""The mathematics of tuning, on a small random model."""

import json
import math
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `researcher` is not installed")

import torch

from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.errors import StoppedError, TuningError
from serl.researcher.tuning.experience import Experience
from serl.researcher.tuning.export import export_merged, export_peft
from serl.researcher.tuning.scores import batch_of, chosen, divergence, entropy, log_softmax, straight_through
from serl.researcher.tuning.tuner import Tuner
from tests.researcher.tuning.small import VOCABULARY, small_base, small_tuner

pytestmark = pytest.mark.skipif(find_spec("peft") is None, reason="the extra `researcher` is not installed")

PROMPT = (3, 1, 4)


def row(*tokens: int, performance_bps: float = 0.0, log_proposal: float | None = None) -> Experience:
    return Experience(PROMPT, tokens, performance_bps, None, log_proposal)


def batch(tuner: Tuner) -> list[Experience]:
    return [row(5, 6, performance_bps=2.0), row(7, performance_bps=-1.0), row(1, 2, 3, performance_bps=0.5)]


def gradients(tuner: Tuner) -> list[Any]:
    return [tensor.grad.clone() for tensor in tuner.trained().values()]


def test_padding_changes_no_score() -> None:
    tuner = small_tuner()
    rows = [row(5, 6), row(7), Experience((1, 2, 3, 4, 5), (9, 8, 7), 0.0)]
    together = tuner.log_p(rows)
    alone = torch.cat([tuner.log_p([one]) for one in rows])
    torch.testing.assert_close(together, alone)
    with torch.no_grad():
        logits = tuner.base.model(torch.tensor([[*PROMPT, 5, 6]])).logits[0].log_softmax(-1)
    assert float(together[0]) == pytest.approx((logits[2, 5] + logits[3, 6]).item(), rel=1e-5)


def test_divergence_and_entropy_are_those_of_the_definition() -> None:
    tuner = small_tuner()
    made = batch_of([row(5, 6), row(7)], tuner.masks)
    torch.manual_seed(1)
    log_p, log_base = (torch.randn(3, VOCABULARY).log_softmax(-1) for _ in range(2))
    kl = torch.nn.functional.kl_div(log_base, log_p, log_target=True, reduction="none").sum(-1)
    torch.testing.assert_close(divergence(log_p, log_base, made), torch.stack([kl[0] + kl[1], kl[2]]))
    spread = torch.distributions.Categorical(logits=log_p).entropy()
    torch.testing.assert_close(entropy(log_p, made), torch.stack([spread[0] + spread[1], spread[2]]))


def test_the_estimate_is_the_gradient_of_expected_performance() -> None:
    """All one-token modules, proposed uniformly: importance weights make the mean of the estimates the exact gradient of E[A]."""
    tuner = small_tuner(kl_weight=0.0, weight_min=0.0, weight_max=1e9, gradient_norm_max=1e9, learning_rate=1e-9)
    with torch.no_grad():
        for tensor in tuner.trained().values():
            tensor.add_(0.1 * torch.randn(tensor.shape, generator=torch.Generator().manual_seed(2)))
    performance = torch.linspace(-2.0, 3.0, VOCABULARY)
    uniform = -math.log(VOCABULARY)
    rows = [row(k, performance_bps=float(performance[k]), log_proposal=uniform) for k in range(VOCABULARY)]
    tuner.update(rows)
    estimated = gradients(tuner)
    gains = (performance - performance.mean()) / performance.std(correction=0)
    probabilities = log_softmax(tuner.base.model, batch_of(rows[:1], tuner.masks), 1.0)[0].exp()
    exact = torch.autograd.grad(-(probabilities * gains).sum(), list(tuner.trained().values()))
    assert max(float(one.abs().max()) for one in exact) > 1e-3
    for one, other in zip(estimated, exact, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-3, atol=1e-6)


def test_straight_through_is_hard_forward_and_soft_backward() -> None:
    tuner = small_tuner()
    with torch.no_grad():
        for tensor in tuner.trained().values():
            tensor.add_(0.1)
    made = batch_of([row(5, 6, 7)], tuner.masks)
    model = tuner.base.model
    torch.testing.assert_close(straight_through(model, made, 1.0), log_softmax(model, made, 1.0))
    parameters = list(tuner.trained().values())
    hard = torch.autograd.grad(chosen(log_softmax(model, made, 1.0), made).sum(), parameters)
    soft = torch.autograd.grad(chosen(straight_through(model, made, 1.0), made).sum(), parameters)
    base = log_softmax(model, made, 1.0)
    table = model.get_input_embeddings().weight
    inputs = model.get_input_embeddings()(made.input_ids).clone().requires_grad_()
    score = model(inputs_embeds=inputs).logits[0, 2:5].log_softmax(-1)[torch.arange(3), torch.tensor([5, 6, 7])].sum()
    (pull,) = torch.autograd.grad(score, inputs)
    through = torch.autograd.grad((base.exp() @ table * pull[0, 3:6]).sum(), parameters)
    for one, other, added in zip(soft, hard, through, strict=True):
        torch.testing.assert_close(one, other + added, rtol=1e-3, atol=1e-6)
    assert any(float(added.abs().max()) > 1e-4 for added in through)


@pytest.mark.long
@pytest.mark.parametrize(("share", "found"), [(0.5, True), (0.0, False)])
def test_a_rare_rewarded_choice_is_found_by_a_mixed_proposal(share: float, found: bool) -> None:
    tuner = small_tuner(learning_rate=0.02, entropy_min=0.0, kl_max=1e9)
    tokens, rng = [row(token) for token in range(VOCABULARY)], np.random.default_rng(1)
    rewarded = int(tuner.log_p(tokens).argmin())
    for _ in range(60):
        log_p = tuner.log_p(tokens).double().numpy()
        mixed = (1 - share) * np.exp(log_p) + share / VOCABULARY
        drawn = rng.choice(VOCABULARY, size=8, p=mixed / mixed.sum())
        tuner.update([row(k, performance_bps=float(k == rewarded), log_proposal=math.log(mixed[k])) for k in drawn])
    assert (tuner.log_p(tokens)[rewarded].exp().item() > 0.9) == found


def test_straight_through_learns_too() -> None:
    tuner = small_tuner(estimator="straight_through", learning_rate=0.02, entropy_min=0.0)
    good, bad = row(5, 6, 7, performance_bps=1.0), row(8, 9, 1, performance_bps=-1.0)
    before = tuner.log_p([good, bad])
    for _ in range(10):
        tuner.update([good, bad])
    change = tuner.log_p([good, bad]) - before
    assert change[0] > 1
    assert change[1] < 0


def test_divergence_holds_the_policy_at_the_base() -> None:
    free, held = (small_tuner(learning_rate=0.02, kl_weight=weight, entropy_min=0.0) for weight in (0.0, 5.0))
    for tuner in (free, held):
        for _ in range(15):
            last = tuner.update([row(5, performance_bps=1.0), row(6, performance_bps=0.0)])
            assert last.kl >= 0
    before = float(small_tuner().log_p([row(5)]))
    assert float(free.log_p([row(5)])) - before > 3 * abs(float(held.log_p([row(5)])) - before)


def test_a_resumed_run_is_the_same_run(tmp_path: Path) -> None:
    straight = small_tuner()
    updates = [straight.update(batch(straight)) for _ in range(4)]
    first = small_tuner()
    assert [first.update(batch(first)) for _ in range(2)] == updates[:2]
    first.save(tmp_path / "tuning.safetensors")
    second = small_tuner()
    second.resume(tmp_path / "tuning.safetensors")
    assert [second.update(batch(second)) for _ in range(2)] == updates[2:]
    with pytest.raises(TuningError, match="settings"):
        small_tuner(rank=2).resume(tmp_path / "tuning.safetensors")


@pytest.mark.parametrize(("rule", "word"), [({"kl_max": 1e-4}, "KL"), ({"entropy_min": 99.0}, "entropy")])
def test_the_stop_rule(rule: dict[str, float], word: str) -> None:
    tuner = small_tuner(learning_rate=0.05, **rule)
    for _ in range(5):
        update = tuner.update(batch(tuner))
        if update.stop:
            break
    assert update.stop
    assert word in update.stop
    with pytest.raises(StoppedError, match=word):
        tuner.update(batch(tuner))


def test_what_is_not_finite_leaves_the_adapter_as_it_was() -> None:
    tuner = small_tuner()
    tuner.update(batch(tuner))
    kept = [tensor.detach().clone() for tensor in tuner.trained().values()]
    with pytest.raises(TuningError, match="not finite"):
        tuner.update([replace(one, log_proposal=math.nan) for one in batch(tuner)])
    assert all(torch.equal(old, new) for old, new in zip(kept, tuner.trained().values(), strict=True))


@torch.no_grad()
def logits(model: Any) -> torch.Tensor:
    scores: torch.Tensor = model(torch.tensor([PROMPT])).logits
    return scores


@pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning")
def test_exports_are_the_tuned_model(tmp_path: Path) -> None:
    from peft import PeftModel
    from transformers import AutoModelForCausalLM

    tuner = small_tuner(norms=False, learning_rate=0.05)
    for _ in range(3):
        tuner.update(batch(tuner))
    assert float((logits(tuner.model) - logits(small_tuner().model)).abs().max()) > 0.01
    export_peft(tuner, tmp_path / "adapter")
    adapted = PeftModel.from_pretrained(small_base().model, tmp_path / "adapter")
    torch.testing.assert_close(logits(adapted), logits(tuner.model))
    with pytest.raises(TuningError, match="export_merged"):
        export_peft(small_tuner(), tmp_path / "norms")
    norms = small_tuner(learning_rate=0.05)
    norms.update(batch(norms))
    export_merged(norms, tmp_path / "merged")
    merged = AutoModelForCausalLM.from_pretrained(tmp_path / "merged")
    torch.testing.assert_close(logits(merged), logits(norms.model), rtol=1e-4, atol=1e-5)


def test_an_exported_adapter_is_what_vllm_loads(tmp_path: Path) -> None:
    """What vllm/lora/peft_helper.py and lora_model.py of vLLM ask of the folder that `lora_path` names."""
    from safetensors.torch import load_file

    tuner = Tuner(small_base(), TuningConfig(norms=False))
    export_peft(tuner, tmp_path)
    config = json.loads((tmp_path / "adapter_config.json").read_text())
    assert config["peft_type"] == "LORA"
    assert (config["r"], config["lora_alpha"]) == (16, 32.0), "--max-lora-rank is 16 by default"
    assert sorted(config["target_modules"]) == ["q_proj", "v_proj"]
    assert config["bias"] == "none"
    assert not any(
        config.get(name) for name in ("modules_to_save", "use_dora", "use_rslora", "trainable_token_indices")
    )
    sizes = {"q_proj": 16, "v_proj": 8}
    due = {
        f"base_model.model.model.layers.{layer}.self_attn.{name}.lora_{side}.weight": (16, 16)
        if side == "A"
        else (rows, 16)
        for layer in range(2)
        for name, rows in sizes.items()
        for side in "AB"
    }
    assert {
        name: tuple(values.shape) for name, values in load_file(tmp_path / "adapter_model.safetensors").items()
    } == due
