"""The accounts of a gateway: the credentials of foreign clients, and the participants of the exchange that they trade as."""

import hmac
import os
import secrets
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator, model_validator

from serl.exchange.errors import ConfigError
from serl.exchange.invalid import describe_invalid
from serl.exchange.login import is_name
from serl.exchange.private_files import read_token, warn_if_shared
from serl.exchange.yaml_text import read_settings

SECRETS = ("secret", "token")
"""Each may be given in the accounts file, in a file of its own (`secret_file`) or in an environment variable (`secret_env`)."""

SECRET_CHARACTERS = 32
"""Number of characters of generated secrets, six bits each."""


class GatewayAccount(BaseModel):
    """One participant of the exchange.

    Attributes:
        participant: its name on the exchange.
        login: how a foreign client identifies itself: API key, SenderCompID or user name; by default the participant's name.
        public_key: verifies its signatures in place of a secret, as PEM; only Binance's API supports it.
        secret: how the client authenticates: API secret or password; "" with a public key.
        token: the participant's token on the exchange, if the exchange has participants.
        cancel_on_disconnect: the exchange cancels its orders when its client disconnects.
        drop_copy: the account does not trade; it receives the events of all participants.
        balances: the account's initial balances by asset; only gateways whose protocol has balances use them.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    participant: str
    login: str = ""
    public_key: str = Field("", repr=False)
    secret: str = Field("", validate_default=True, repr=False)
    token: str = Field("", repr=False)
    cancel_on_disconnect: bool = False
    drop_copy: bool = False
    balances: Mapping[str, Decimal] = Field(default_factory=dict)

    @model_validator(mode="before")
    @classmethod
    def _read_sources(cls, values: Any) -> Any:
        if not isinstance(values, dict):
            return values
        read = {"login": values.get("participant", "")} | values
        for name in SECRETS:
            sources = [source for source in (name, f"{name}_file", f"{name}_env") if source in read]
            if len(sources) > 1:
                raise ValueError(f"expected one of {', '.join(sources)}, got all; remove all but one")
            if (path := read.pop(f"{name}_file", None)) is not None:
                read[name] = read_token(Path(path))
            if (variable := read.pop(f"{name}_env", None)) is not None:
                read[name] = os.environ.get(str(variable), "")
        if (path := read.pop("public_key_file", None)) is not None:
            read["public_key"] = _read_public_key(Path(path))
        return read

    @field_validator("secret")
    @classmethod
    def _one_proof(cls, secret: str, info: ValidationInfo) -> str:
        if bool(secret) == bool(info.data.get("public_key")):
            raise ValueError(f"expected a secret or a public_key, got {'both' if secret else 'neither'}; give one")
        return secret

    def proves(self, secret: str) -> bool:
        """Whether a secret is this account's; compares in constant time. Always False for an account without a secret."""
        return bool(self.secret) and hmac.compare_digest(self.secret.encode(), secret.encode())


Accounts = Mapping[str, GatewayAccount]
"""Accounts by their login."""


def read_accounts(path: Path) -> Accounts:
    """Reads the accounts in a YAML file: `accounts: {PARTICIPANT: {login: ..., secret: ..., token: ...}}`. Raises ConfigError."""
    entries = read_settings(path, "docs/gateways/index.md").get("accounts")
    warn_if_shared(path, "accounts file")
    if not isinstance(entries, dict) or not entries:
        raise ConfigError(
            f"{path}: expected `accounts:` with at least one participant, got none; see docs/gateways/index.md"
        )
    return by_login([_account(path, str(name), entry) for name, entry in entries.items()])


def _read_public_key(path: Path) -> str:
    try:
        return path.read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: expected a file with a public key, got {error}; check the path") from None


def _account(path: Path, name: str, entry: Any) -> GatewayAccount:
    if not is_name(name):
        raise ConfigError(f"{path}: expected names of 1 to 64 printable bytes, got {name[:80]!r}; change it")
    try:
        return GatewayAccount.model_validate({"participant": name} | (entry if isinstance(entry, dict) else {}))
    except ValidationError as error:
        text = describe_invalid(
            error, GatewayAccount, at=f"accounts.{name}", most=1, secret={"participant", *GatewayAccount.model_fields}
        )
        raise ConfigError(f"{path}: {text}; change it") from None


def new_accounts(names: Sequence[str], secret_characters: int = SECRET_CHARACTERS) -> Accounts:
    """Creates accounts for an exchange without participants, each with a generated secret. Raises ConfigError."""
    for name in names:
        if not is_name(name):
            raise ConfigError(f"expected names of 1 to 64 printable bytes, got {name[:80]!r}; change it")
    return by_login(
        [
            GatewayAccount(
                participant=name, login=name, secret=secrets.token_urlsafe(secret_characters)[:secret_characters]
            )
            for name in names
        ]
    )


def require_secrets(accounts: Accounts, protocol: str) -> None:
    """Raises ConfigError for an account with a public key; for protocols that support only passwords."""
    for account in accounts.values():
        if not account.secret:
            raise ConfigError(
                f"account {account.participant}: expected a secret, as {protocol} has passwords only, got a public_key; give it a secret"
            )


def check_lengths(accounts: Accounts, protocol: str, login_characters: int, secret_characters: int) -> None:
    """Raises ConfigError for a login or secret that does not fit into a protocol's fields: ASCII, at most this many characters, no blank at
    either end."""
    for account in accounts.values():
        for name, text, most in (
            ("login", account.login, login_characters),
            ("secret", account.secret, secret_characters),
        ):
            if not text.isascii() or len(text) > most or text != text.strip(" \0"):
                got = f"{text!r}" if name == "login" else f"{len(text)} characters"
                raise ConfigError(
                    f"account {account.participant}: expected a {name} of 1 to {most} ASCII characters, as {protocol} has, got {got}; "
                    f"change its {name} in the accounts file"
                )


def by_login(accounts: Sequence[GatewayAccount]) -> Accounts:
    """Accounts by login. Raises ConfigError if two have the same."""
    found: dict[str, GatewayAccount] = {}
    for account in accounts:
        if account.login in found:
            both = f"{found[account.login].participant} and {account.participant}"
            raise ConfigError(f"expected a login for each account, got {account.login!r} for {both}; change one")
        found[account.login] = account
    return found
