"""`serl llm export` of a run's tuned model."""

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="the extra `researcher` is not installed")

import torch
from click.testing import CliRunner, Result

from serl.exchange.errors import SerlError
from serl.researcher.cli_llm import llm
from serl.researcher.outer import export as exports
from serl.researcher.outer import run
from serl.researcher.outer.low_level import settings_of
from serl.researcher.tuning import base
from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.experience import Experience
from serl.researcher.tuning.tuner import Tuner
from tests.researcher.outer.small import config_of
from tests.researcher.tuning.small import small_base

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*is_gradient_checkpointing:FutureWarning"),
    pytest.mark.skipif(find_spec("peft") is None, reason="the extra `researcher` is not installed"),
]
IDS = torch.tensor([[1, 2, 3, 4]])


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the small random model, which is not a GGUF file, in all runs."""
    monkeypatch.setattr(exports, "find", Path)
    monkeypatch.setattr(base, "load_base", lambda path: small_base())


def tuned_run(folder: Path, updates: int = 2, **tuning: Any) -> Tuner:
    """A run whose model has had some updates; the tuner after the last."""
    settings: dict[str, Any] = {"rank": 4, "learning_rate": 0.05, **tuning}
    config = config_of(proposer="dek", model="small", low_level={"tuning": settings})
    run.begin(folder, config, "test", resume=False).close()
    (folder / run.TUNING).mkdir()
    tuner = Tuner(small_base(), TuningConfig(**settings))
    for number in range(1, updates + 1):
        tuner.update([Experience((1, 2), (3, 4), 1.0), Experience((1, 2), (5,), -1.0)])
        tuner.save(folder / run.TUNING / f"after-{number:05}.safetensors")
    return tuner


def export(folder: Path, form: str, output: Path) -> Result:
    return CliRunner().invoke(llm, ["export", str(folder), "--to", form, "--output", str(output)])


def logits(model: Any) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(input_ids=IDS).logits
    return found


@pytest.mark.long
def test_merged_holds_adapter_and_norms(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    tuner = tuned_run(tmp_path / "run")
    done = export(tmp_path / "run", "merged", tmp_path / "merged")
    assert done.exit_code == 0 and "after 2 updates" in done.output
    merged = logits(AutoModelForCausalLM.from_pretrained(tmp_path / "merged"))
    torch.testing.assert_close(merged, logits(tuner.model), rtol=1e-4, atol=1e-5)
    assert float((merged - logits(small_base().model)).abs().max()) > 0.01
    refused = export(tmp_path / "run", "merged", tmp_path / "merged")
    assert isinstance(refused.exception, SerlError) and "new or empty folder" in str(refused.exception)


@pytest.mark.long
def test_a_run_of_earlier_defaults_is_exported_with_the_layers_that_it_trained(tmp_path: Path) -> None:
    tuned_run(tmp_path, layers=1)
    database, config = run.open_run(tmp_path)
    database.set_fact(
        "config", config.model_dump(mode="json") | {"low_level": {"tuning": {"rank": 4, "learning_rate": 0.05}}}
    )
    database.close()
    database, config = run.open_run(tmp_path)
    database.close()
    assert config.active_low_level and config.active_low_level.tuning.layers is None
    assert settings_of(config.active_low_level, tmp_path / run.TUNING).layers == 1, "the state knows"
    assert export(tmp_path, "merged", tmp_path / "merged").exit_code == 0


@pytest.mark.long
def test_peft_is_refused_where_norms_were_tuned(tmp_path: Path) -> None:
    from peft import PeftModel

    tuned_run(tmp_path / "norms")
    refused = export(tmp_path / "norms", "peft", tmp_path / "adapter")
    assert isinstance(refused.exception, SerlError) and "--to merged" in str(refused.exception)
    assert not (tmp_path / "adapter").exists()
    tuner = tuned_run(tmp_path / "run", norms=False)
    assert export(tmp_path / "run", "peft", tmp_path / "adapter").exit_code == 0
    adapted = PeftModel.from_pretrained(small_base().model, tmp_path / "adapter")
    torch.testing.assert_close(logits(adapted), logits(tuner.model))


def test_a_run_without_updates_has_nothing_to_export(tmp_path: Path) -> None:
    tuned_run(tmp_path / "young", updates=0)
    refused = export(tmp_path / "young", "merged", tmp_path / "out")
    assert isinstance(refused.exception, SerlError) and "no update" in str(refused.exception)
    run.begin(tmp_path / "untuned", config_of(), "test", resume=False).close()
    refused = export(tmp_path / "untuned", "merged", tmp_path / "out")
    assert isinstance(refused.exception, SerlError) and "low level off" in str(refused.exception)
