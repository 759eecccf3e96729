"""The example and the accounts of docs/gateways/fix.md."""

from pathlib import Path

import pytest

from serl.gateways.accounts import read_accounts
from tests.doc_blocks import blocks, run
from tests.gateways.fix.server_fixture import PASSWORD, Gateway


def test_the_example_sends_an_order(gateway: Gateway) -> None:
    names = run("gateways/fix.md", PORT=gateway.port, PASSWORD=PASSWORD)
    names["client"].close()
    assert (names["logon"].get(35), names["report"].get(150), names["report"].get(151)) == (b"A", b"0", b"100")


def test_the_accounts_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MAKER_PASSWORD", "m")
    for name in ("alice.password", "alice.token", "surveillance.password", "surveillance.token"):
        (tmp_path / name).write_text(f"{name}\n")
        (tmp_path / name).chmod(0o600)
    (block,) = blocks("gateways/fix.md", "yaml")
    path = tmp_path / "accounts.yaml"
    path.write_text(block.text)
    path.chmod(0o600)
    accounts = read_accounts(path)
    assert list(accounts) == ["alice", "MAKER1", "surveillance"]
    assert accounts["MAKER1"].cancel_on_disconnect and accounts["surveillance"].drop_copy
    assert accounts["alice"].proves("alice.password") and not accounts["alice"].drop_copy
