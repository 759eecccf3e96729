"""Minds with the embedded tiny model, for real."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("openai", reason="the extra `researcher` is not installed")
pytest.importorskip("xllamacpp", reason="the extra `researcher` is not installed")

from serl.researcher.llm.models import MODELS
from tests.server_fixture import start_exchange


@pytest.mark.long
@pytest.mark.skipif(not MODELS["tiny"].path.exists(), reason="needs the model: serl llm fetch tiny")
def test_the_tiny_model_decides_only_what_is_possible(tmp_path: Path) -> None:
    """Its grammar allows nothing else; only an answer that is too long is refused."""
    config = {"name": "small", "model": "tiny", "hours": "09:30-09:32", "prices": {"AMZN": 100}, "symbols": ["AMZN"],
              "loans": {}, "memory": {"reflect_every": 2},
              "personas": [{"name": "one", "shares": {"AMZN": 50}}, {"name": "two", "risk": "seeking"}]}  # fmt: skip
    (tmp_path / "small.yaml").write_text(yaml.safe_dump(config))
    with start_exchange(symbols="AMZN", clock="lockstep") as served:
        command = [
            sys.executable,
            "-m",
            "serl",
            "minds",
            "start",
            "--config",
            "small.yaml",
            "--connect",
            served.endpoint,
        ]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    total = json.loads((tmp_path / "runs" / "small" / "statistics.json").read_text())["all"]
    assert total["decisions"] == 4 == total["valid"] + total["refused"].get("truncated", 0)
    assert total["calls"] >= 4 and total["prompt_tokens"] > 1000
    again = [*command, "--output", "runs/small", "--offline"]
    with start_exchange(symbols="AMZN", clock="lockstep") as served:
        again[again.index("--connect") + 1] = served.endpoint
        repeated = subprocess.run(again, cwd=tmp_path, capture_output=True, text=True)
    assert repeated.stdout.splitlines()[:4] == done.stdout.splitlines()[:4], "answered from the record of calls"
