"""Tuning on a GPU: the same updates as on the CPU. Without a GPU only the refusal is tested."""

from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `researcher` is not installed")

import torch

from serl.researcher.tuning import memory
from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.experience import Experience
from serl.researcher.tuning.export import export_merged
from serl.researcher.tuning.tuner import Tuner, Update
from tests.researcher.tuning.small import small_tuner

pytestmark = pytest.mark.skipif(find_spec("peft") is None, reason="the extra `researcher` is not installed")
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch finds no GPU here")

PROMPT = (3, 1, 4)
ROWS = [
    Experience(PROMPT, (5, 6), 2.0), Experience(PROMPT, (7,), -1.0), Experience((1, 2, 3, 4, 5), (9, 8, 7), 0.5),
    Experience(PROMPT, (1, 2, 3), -0.5),
]  # fmt: skip
WAYS: Sequence[dict[str, Any]] = (
    {"layers": None}, {"layers": 1}, {"estimator": "straight_through"}, {"methods": ("preference", "supervised")},
)  # fmt: skip


def updated(device: str, **settings: Any) -> tuple[Tuner, list[Update]]:
    """After three updates."""
    tuner = small_tuner(device=device, learning_rate=0.01, entropy_min=0.0, **settings)
    return tuner, [tuner.update(ROWS) for _ in range(3)]


def test_a_gpu_that_is_not_there_is_refused_before_the_first_update(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(
        TuningError, match=r"device: expected a GPU that PyTorch .* can use, got none; set tuning\.device: cpu"
    ):
        small_tuner(device="cuda")


def test_the_memory_of_the_gpu_counts_if_it_tunes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "sizes_of", lambda gguf: memory.Sizes(1_777_000_000, 28, 1536, 8960, 151_936))
    monkeypatch.setattr(memory, "available_bytes", lambda: 64 * 10**9)
    monkeypatch.setattr(memory, "gpu_available_bytes", lambda: 6 * 10**9)
    memory.require_memory(tmp_path / "coder.gguf", TuningConfig(), "spec")
    with pytest.raises(TuningError, match=r"6\.0 GB are available"):
        memory.require_memory(tmp_path / "coder.gguf", TuningConfig(device="cuda"), "spec")


@needs_gpu
@pytest.mark.parametrize("way", WAYS, ids=str)
def test_an_update_on_the_gpu_is_that_on_the_cpu(way: dict[str, Any]) -> None:
    (on_cpu, expected), (on_gpu, found) = updated("cpu", **way), updated("cuda", **way)
    for one, other in zip(expected, found, strict=True):
        assert (one.loss, one.log_p, one.kl, one.entropy) == pytest.approx(
            (other.loss, other.log_p, other.kl, other.entropy), rel=1e-3, abs=1e-4
        )
    torch.testing.assert_close(on_gpu.log_p(ROWS).cpu(), on_cpu.log_p(ROWS), rtol=1e-3, atol=1e-3)


@needs_gpu
def test_what_a_gpu_saved_goes_on_and_is_exported_on_a_cpu(tmp_path: Path) -> None:
    on_gpu, _ = updated("cuda")
    on_gpu.save(tmp_path / "state.safetensors")
    on_cpu = small_tuner(device="cpu", learning_rate=0.01, entropy_min=0.0)
    on_cpu.resume(tmp_path / "state.safetensors")
    expected, found = on_gpu.update(ROWS), on_cpu.update(ROWS)
    assert (found.step, found.loss) == (4, pytest.approx(expected.loss, rel=1e-3, abs=1e-4))
    export_merged(on_gpu, tmp_path / "merged")
    assert (tmp_path / "merged" / "model.safetensors").exists()
