"""Tuning the tiny model for real: masks, a bandit, and the tuned model behind the embedded endpoint."""

import math
import re
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("torch", reason="the extra `researcher` is not installed")
pytest.importorskip("xllamacpp", reason="the extra `researcher` is not installed")

import torch

from serl.researcher.llm.client import Client
from serl.researcher.llm.models import MODELS
from serl.researcher.llm.requests import grammar_of
from serl.researcher.llm.served import ServedModel, served_model
from serl.researcher.tuning.base import Base, dequantised_folder, load_base
from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.experience import Experience, experience_of, log_mixture
from serl.researcher.tuning.export import export_gguf
from serl.researcher.tuning.tuner import Tuner
from tests.researcher.llm.fake import completion, fake_endpoint

GGUF = MODELS["tiny"].path
pytestmark = pytest.mark.skipif(
    not dequantised_folder(GGUF).exists(), reason="needs the model in fp32: serl llm fetch tiny, serl llm unpack tiny"
)
ASK = [{"role": "system", "content": "Answer."}, {"role": "user", "content": "Name one term."}]
CHOICES = ["variance", "inventory", "impact", "delay", "spread"]
GRAMMAR = "%llguidance {}\nstart: " + " | ".join(f'"{choice}"' for choice in CHOICES)


@pytest.fixture
def base() -> Base:
    torch.set_num_threads(1)
    return load_base(GGUF)


@pytest.fixture(scope="module")
def served() -> Iterator[ServedModel]:
    with served_model() as running:
        yield running


def written(served: ServedModel, prompt: tuple[int, ...], choice: str) -> tuple[Experience, float]:
    """A choice as the endpoint writes it, and its log-probability there; scored without the grammar, as the endpoint does."""
    only = f'%llguidance {{}}\nstart: "{choice}"'
    answers = Client(served.endpoint).complete(ASK, grammar=only, logprobs=True)
    assert answers.prompt_tokens == len(prompt), "the same template on both sides"
    (answer,) = answers.answers
    module = experience_of(prompt, answer, 0.0, only)
    tokens = [token for token in answer.tokens if token.text]
    return Experience(prompt, module.token_ids, 0.0), sum(token.logprob for token in tokens)


def agreement(served: ServedModel, tuner: Tuner, prompt: tuple[int, ...]) -> float:
    """Largest difference of log-probabilities between endpoint and tuner."""
    rows = [written(served, prompt, choice) for choice in CHOICES]
    ours = tuner.log_p([row for row, _ in rows]).numpy()
    return float(np.abs(ours - np.array([log_p for _, log_p in rows])).max())


@pytest.mark.long
def test_a_bandit_is_learnt_and_served(base: Base, served: ServedModel, tmp_path: Path) -> None:
    tuner, prompt, rng = (
        Tuner(base, TuningConfig(kl_max=50.0, microbatch=8)),
        base.prompt_ids(ASK),
        np.random.default_rng(0),
    )
    rows = [Experience(prompt, base.text_ids(choice), 0.0, GRAMMAR) for choice in CHOICES]
    rewarded = int(tuner.log_p(rows).argmin())
    assert agreement(served, tuner, prompt) < 0.5
    probabilities = []
    for _ in range(20):
        log_p = tuner.log_p(rows).double().numpy()
        share = np.exp(log_p) / np.exp(log_p).sum()
        probabilities.append(
            float(np.exp(log_p[rewarded]))
        )  # of these tokens: the endpoint may write the same word with others
        if probabilities[-1] > 0.9:
            break
        drawn = rng.choice(5, size=4, p=0.5 * share + 0.1)
        batch = [
            Experience(
                prompt, rows[k].token_ids, 10.0 * (k == rewarded), GRAMMAR, log_mixture(log_p[k], math.log(0.2), 0.5)
            )
            for k in drawn
        ]
        tuner.update(batch)
    assert probabilities[0] < 0.05
    assert probabilities[-1] > 0.9, probabilities
    tuned = export_gguf(tuner, GGUF, tmp_path)
    before = served.endpoint.model
    endpoint = served.restart(tuned.lora, tuned.model)
    assert endpoint.model != before, "the record must not mix the answers of both"
    assert agreement(served, tuner, prompt) < 0.5
    texts = Client(endpoint).complete(ASK, grammar=GRAMMAR, n=10).texts
    assert texts.count(CHOICES[rewarded]) >= 7


@pytest.mark.long
def test_masks_are_those_of_the_endpoint(base: Base, served: ServedModel) -> None:
    schema = {
        "type": "object",
        "properties": {"terms": {"type": "array", "items": {"enum": CHOICES}, "minItems": 1, "maxItems": 3},
                       "weight": {"type": "number", "minimum": 0, "maximum": 2}},
        "required": ["terms", "weight"], "additionalProperties": False,
    }  # fmt: skip
    served.restart()
    tuner, prompt = Tuner(base), base.prompt_ids(ASK)
    answers = Client(served.endpoint).complete(ASK, schema=schema, n=3, max_tokens=100, logprobs=True).answers
    for answer in answers:
        row = experience_of(prompt, answer, 0.0, grammar_of(schema))
        allowed = tuner.masks.allowed(row.grammar or "", row.token_ids)
        assert 0 < allowed.sum(1).min() < 100 < allowed.shape[1]
        free = Experience(prompt, row.token_ids, 0.0)
        assert float(tuner.log_p([row])) > float(tuner.log_p([free])), "fewer choices, more probable"
        with pytest.raises(TuningError, match="breaks the grammar"):
            tuner.log_p([Experience(prompt, (*row.token_ids[:-1], row.token_ids[0]), 0.0, row.grammar)])


@pytest.mark.long
def test_the_page_on_models_runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    page = Path(__file__).parents[3] / "docs" / "models.md"
    completing, tuning = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    exec(compile(tuning, "models.md", "exec"), {})
    assert {path.name for path in (tmp_path / "tuned").iterdir()} == {"adapter.gguf", "model.gguf"}
    with fake_endpoint(completion("```python\ndef reward(step):\n    return step\n```")) as fake:
        names: dict[str, object] = {}
        exec(compile(completing.replace("http://127.0.0.1:11434/v1", fake.url), "models.md", "exec"), names)
    assert names["codes"] == ["def reward(step):\n    return step\n"] * 4
