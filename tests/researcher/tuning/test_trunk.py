"""Training the upper layers alone: the same numbers as a pass through all layers, without running the lower ones again."""

from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `researcher` is not installed")

import torch

from serl.researcher.tuning.adapter import save_adapter, start_from
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.experience import Experience
from serl.researcher.tuning.pool import Minibatch
from serl.researcher.tuning.trunk import Kept, Trunk
from serl.researcher.tuning.tuner import Tuner
from tests.researcher.tuning.small import small_tuner

pytestmark = pytest.mark.skipif(find_spec("peft") is None, reason="the extra `researcher` is not installed")
ROWS = [
    Experience((3, 1, 4), (5, 6), 2.0, None, -4.0), Experience((3,), (7,), -1.0, None, -2.0),
    Experience((1, 2, 3, 4, 5, 6), (9, 8, 7, 1), 0.5, None, -8.0), Experience((3, 1), (2, 2), 0.1, None, -5.0),
]  # fmt: skip
ALL = ("policy_gradient", "preference", "supervised")


def without_trunk(tuner: Tuner) -> Tuner:
    """The tuner with passes through all layers."""
    assert tuner._trunk is not None
    tuner._trunk = None
    return tuner


@pytest.mark.parametrize("settings", [
    {}, {"methods": ALL}, {"norms": False}, {"estimator": "straight_through"},
    {"targets": ("q_proj", "k_proj", "v_proj", "o_proj", "down_proj"), "microbatch": 1},
])  # fmt: skip
def test_scores_losses_and_gradients_are_those_of_all_layers(settings: dict[str, Any]) -> None:
    """Three updates, the later ones with what the first kept."""
    common = {"layers": 1, "learning_rate": 0.02, "entropy_min": 0.0, "gradient_norm_max": 1e9, **settings}
    made, due = small_tuner(**common), without_trunk(small_tuner(**common))
    batch = Minibatch(tuple(ROWS), (1.0, -1.0, 0.5, 0.0), (ROWS[0],), ((ROWS[0], ROWS[1]),))
    for _ in range(3):
        torch.testing.assert_close(made.log_p(ROWS), due.log_p(ROWS), rtol=1e-4, atol=1e-5)
        one, other = made.learn(batch), due.learn(batch)
        figures = [(found.loss, found.kl, found.entropy, found.gradient_norm) for found in (one, other)]
        assert figures[0] == pytest.approx(figures[1], rel=1e-4, abs=1e-5)
        for (name, tensor), expected in zip(made.trained().items(), due.trained().values(), strict=True):
            torch.testing.assert_close(tensor.grad, expected.grad, rtol=1e-3, atol=1e-5, msg=name)
    assert one.kl > 1e-3, "the model changed"


def test_only_the_upper_layers_and_the_final_norm_are_trained() -> None:
    names = set(small_tuner(layers=1).trained())
    assert names and all(".layers.1." in name or ".model.norm." in name for name in names)
    assert sum(".modules_to_save." in name for name in names) == 3
    assert set(small_tuner(layers=2).trained()) == set(small_tuner(layers=None).trained()) > names
    assert small_tuner(layers=2)._trunk is small_tuner(layers=None)._trunk is None


def test_the_lower_layers_run_once_for_each_module() -> None:
    tuner, runs = small_tuner(layers=1), list[int]()
    tuner.base.model.model.layers[0].register_forward_hook(lambda *_: runs.append(1))
    for _ in range(3):
        tuner.log_p(ROWS)
        tuner.update(ROWS)
    assert len(runs) == len(ROWS)


def test_what_is_kept_is_bounded_and_the_least_recently_used_goes_first() -> None:
    kept, made = Kept(2 * 4), list[str]()

    def maker(keys: str) -> Callable[[list[int]], list[torch.Tensor]]:
        def make(places: list[int]) -> list[torch.Tensor]:
            made.extend(keys[place] for place in places)
            return [torch.tensor(ord(keys[place]), dtype=torch.int32) for place in places]

        return make

    for keys in ("ab", "a", "ca", "b", "xyz"):
        assert [int(one) for one in kept.all_of(keys, maker(keys))] == [ord(key) for key in keys]
    assert made == list("abcbxyz"), "b went, because a was used since"


def test_a_model_that_does_more_than_run_its_layers_is_refused() -> None:
    model = small_tuner().base.model

    class Scaling(type(model.model)):  # pyrefly: ignore[invalid-inheritance]
        def forward(self, inputs_embeds: torch.Tensor, **settings: Any) -> Any:
            return super().forward(inputs_embeds=3 * inputs_embeds, **settings)

    Trunk(model, 1)
    model.model.__class__ = Scaling
    with pytest.raises(TuningError, match=r"layers: expected a model that runs its layers in turn.*layers: null"):
        Trunk(model, 1)


def test_an_adapter_without_layers_is_of_all_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "adapter.safetensors"
    with monkeypatch.context() as before:
        before.setattr("serl.researcher.tuning.adapter._SHAPE", ("rank", "alpha", "targets", "norms"))
        save_adapter(small_tuner(layers=None), path, {})
    assert "layers" not in start_from(small_tuner(layers=None), path)["shape"]
    with pytest.raises(TuningError, match=r"'layers': 1.*got.*'layers': None"):
        start_from(small_tuner(layers=1), path)
