"""Accounts of gateways: where their secrets come from, and what is refused."""

from pathlib import Path

import pytest

from serl.exchange.errors import ConfigError
from serl.gateways.accounts import check_lengths, new_accounts, read_accounts
from tests.doc_blocks import blocks


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "accounts.yaml"
    path.write_text(text)
    path.chmod(0o600)
    return path


def test_secrets_come_from_the_file_another_file_or_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BOB_SECRET", "of the environment")
    (tmp_path / "carol").write_text("of a file\n")
    (tmp_path / "carol").chmod(0o600)
    text = f"""
accounts:
  alice: {{secret: inline, token: t, login: KEY}}
  bob: {{secret_env: BOB_SECRET}}
  carol: {{secret_file: {tmp_path}/carol}}
"""
    accounts = read_accounts(written(tmp_path, text))
    assert accounts["KEY"].participant == "alice" and accounts["KEY"].token == "t"
    assert accounts["KEY"].proves("inline") and not accounts["KEY"].proves("inlin")
    assert accounts["bob"].proves("of the environment")
    assert accounts["carol"].proves("of a file")
    assert "inline" not in repr(accounts)


@pytest.mark.parametrize(
    "text, error",
    [
        ("[]", "expected `accounts:`"),
        ("accounts:", "expected `accounts:`"),
        ("accounts: {alice: }", "accounts.alice.secret: .*expected a secret or a public_key, got neither"),
        ("accounts: {alice: {secret: ''}}", "accounts.alice.secret"),
        ("accounts: {alice: {secret_env: NO_SUCH_VARIABLE}}", "accounts.alice.secret"),
        ("accounts: {alice: {secret: a, secret_env: B}}", "expected one of secret, secret_env"),
        ("accounts: {alice: {secret: a, password: b}}", "accounts.alice.password"),
        ("accounts: {'': {secret: a}}", "expected names of 1 to 64"),
        ("accounts: {alice: {secret: a}, bob: {secret: b, login: alice}}", "'alice' for alice and bob"),
        ("accounts: {alice: {secret_file: nowhere}}", "nowhere"),
    ],
)
def test_a_wrong_file_is_refused(tmp_path: Path, text: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        read_accounts(written(tmp_path, text))


def test_new_accounts_have_secrets_of_their_own() -> None:
    accounts = new_accounts(["alice", "bob"])
    assert accounts["alice"].secret != accounts["bob"].secret
    with pytest.raises(ConfigError, match="expected a login for each"):
        new_accounts(["alice", "alice"])


def test_secrets_have_the_length_of_a_protocol() -> None:
    accounts = new_accounts(["alice"], 10)
    assert len(accounts["alice"].secret) == 10
    check_lengths(accounts, "SoupBinTCP", 6, 10)
    with pytest.raises(
        ConfigError, match="account alice: expected a secret of 1 to 9 ASCII characters, as X has, got 10 characters"
    ):
        check_lengths(accounts, "X", 6, 9)
    with pytest.raises(ConfigError, match="expected a login of 1 to 4 ASCII characters, as X has, got 'alice'"):
        check_lengths(accounts, "X", 4, 10)
    with pytest.raises(ConfigError, match="expected a login"):
        check_lengths(new_accounts(["a "]), "X", 6, 32)


def test_the_file_of_the_documentation_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "alice.secret").write_text("hush\n")
    (tmp_path / "alice.secret").chmod(0o600)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("ALICE_TOKEN", "t0k3n")
    (block,) = blocks("gateways/index.md", "yaml")
    account = read_accounts(written(tmp_path, block.text))["my-key"]
    assert (account.participant, account.token) == ("alice", "t0k3n") and account.proves("hush")
