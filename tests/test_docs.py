"""What the docs tell people to type works."""

import re
from pathlib import Path

import pytest

from tests.served import start_exchange

DOCS = Path(__file__).parents[1] / "docs"


def test_the_bot_tutorial_runs() -> None:
    code = re.findall(r"```python\n(.*?)```", (DOCS / "tutorials" / "write-a-bot.md").read_text(), re.DOTALL)
    assert code
    with start_exchange(symbols="DEMO") as served:
        for block in code:
            exec(compile(block, "write-a-bot.md", "exec"), {"ENDPOINT": served.endpoint})


def test_the_trader_of_your_own_trades(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (DOCS / "traders.md").read_text()
    own, used = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (population,) = re.findall(r"```yaml\n(.*?)```", page, re.DOTALL)
    (tmp_path / "my_traders.py").write_text(own)
    (tmp_path / "mine.yaml").write_text(population)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    names: dict[str, object] = {}
    exec(compile(used, "traders.md", "exec"), names)
    positions = names["positions"]
    assert isinstance(positions, list) and len(positions) == 5
    assert any(positions), "it has traded"


def test_the_executor_of_the_tutorial_learns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    (code,) = re.findall(r"```python\n(.*?)```", (DOCS / "tutorials" / "train-an-executor.md").read_text(), re.DOTALL)
    monkeypatch.chdir(tmp_path)
    names: dict[str, object] = {}
    exec(compile(code.replace("200_000", "1_920"), "train-an-executor.md", "exec"), names)
    assert (tmp_path / "policy.safetensors").exists()
    assert "advantage" in names
