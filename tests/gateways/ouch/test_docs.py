"""The accounts of docs/gateways/ouch.md; test_orders.py runs its example."""

import textwrap
from pathlib import Path

import pytest

from serl.gateways.accounts import read_accounts

PAGE = Path(__file__).parents[3] / "docs" / "gateways" / "ouch.md"


def test_the_accounts_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAKER_PASSWORD", "m")
    for name in ("alice.password", "alice.token"):
        (tmp_path / name).write_text(f"{name}\n")
        (tmp_path / name).chmod(0o600)
    text = PAGE.read_text().split("```yaml\n")[1].split("    ```")[0]
    path = tmp_path / "accounts.yaml"
    path.write_text(textwrap.dedent(text))
    path.chmod(0o600)
    accounts = read_accounts(path)
    assert list(accounts) == ["alice", "MAKER1"] and accounts["alice"].token == "alice.token"
