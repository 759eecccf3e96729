"""The page on LLM traders is correct."""

import json
from pathlib import Path

import pytest
import yaml

pytest.importorskip("openai", reason="the extra `researcher` is not installed")

from serl.minds.config import (
    BudgetConfig,
    LayerConfig,
    LoansConfig,
    MemoryConfig,
    MindsConfig,
    PersonaConfig,
    load_minds,
)
from serl.minds.decision import Decision, decision_schema
from serl.minds.events import read_event_lines
from tests.doc_blocks import DOCS, blocks

PAGE = "minds.md"


def test_the_settings_are_valid(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "yaml")
    (tmp_path / "desk.yaml").write_text(block.text)
    config, folder = load_minds(str(tmp_path / "desk.yaml"))
    assert (config.name, folder) == ("desk", tmp_path)
    assert set(yaml.safe_load(block.text)["personas"][0]) <= set(PersonaConfig.model_fields)


def test_every_setting_is_on_the_page() -> None:
    text = (DOCS / PAGE).read_text()
    for model in (MindsConfig, PersonaConfig, LoansConfig, MemoryConfig, LayerConfig, BudgetConfig):
        missing = [name for name in model.model_fields if f"`{name}`" not in text]
        assert not missing, f"{model.__name__}: {missing}"


def test_the_fields_of_a_decision_are_on_the_page() -> None:
    text = (DOCS / PAGE).read_text()
    schema = decision_schema(["S1"], 1, forum=True, loans=True)
    assert set(schema["properties"]) == set(Decision.model_fields)
    assert all(f"`{name}`" in text for name in Decision.model_fields)


def test_the_events_are_valid(tmp_path: Path) -> None:
    (block,) = blocks(PAGE, "text")
    (tmp_path / "events.jsonl").write_text(block.text)
    lines = read_event_lines(tmp_path / "events.jsonl", ["ALFA"])
    assert [line.kind for line in lines] == [json.loads(text)["kind"] for text in block.text.splitlines()]
