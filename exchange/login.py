"""Who may do what on an exchange: participants with credentials and permissions, and the operator's credential of this start."""

import hmac
import os
import re
import secrets
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from serl.exchange.private_files import read_token

Permission = Literal["trade", "data", "drop_copy", "operate"]
"""trade: log in and send orders; data: queries and feed; drop_copy: every participant's events and commands; operate: everything else of
the admin socket, and operator commands in a session."""
PERMISSIONS: tuple[Permission, ...] = get_args(Permission)
_OPEN: tuple[Permission, ...] = ("trade", "data")
"""Permissions that need no credential on an exchange without participants, and a participant's permissions by default."""
_SECRET_SOURCES = ("token", "token_file", "token_env")


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class ParticipantConfig(_Section):
    """Credentials and permissions of a participant. It needs a token, a CURVE key, or both; if it has both, both must be right."""

    token: str = Field("", min_length=1, repr=False)
    token_file: Path | None = None
    token_env: str | None = None
    client_key: str = Field("", pattern=r"^[0-9a-zA-Z.\-:+=^!/*?&<>()\[\]{}@%$#]{40}$")
    client_key_file: Path | None = None
    permissions: tuple[Permission, ...] = _OPEN

    @model_validator(mode="before")
    @classmethod
    def _read_sources(cls, values: Any) -> Any:
        """Reads the token and the key from where they are kept."""
        if not isinstance(values, dict):
            return values
        given = [name for name in _SECRET_SOURCES if values.get(name) is not None]
        if len(given) > 1:
            raise ValueError(f"expected one of {', '.join(_SECRET_SOURCES)}, got {' and '.join(given)}; remove one")
        if not given and not values.get("client_key") and not values.get("client_key_file"):
            raise ValueError("expected a token (token, token_file or token_env) or a client_key, got neither; add one")
        read = dict(values)
        if given == ["token_file"]:
            read["token"] = read_token(Path(str(values["token_file"])))
        if given == ["token_env"]:
            read["token"] = _token_of(str(values["token_env"]))
        if values.get("client_key_file"):
            read["client_key"] = _read_key(Path(str(values["client_key_file"])))
        return read

    def matches(self, token: object, key: str | None) -> bool:
        """Whether the credentials are this participant's. key: the connection's CURVE key, "" without CURVE; None: any."""
        return _equal(self.token, token) and (not self.client_key or key is None or _equal(self.client_key, key))


def _token_of(variable: str) -> str:
    """The token in an environment variable. Raises ValueError if there is none."""
    token = os.environ.get(variable)
    if not token:
        problem = "is not set" if token is None else "is empty"
        raise ValueError(
            f"expected a token in the environment variable {variable}, which {problem}; set it before the start"
        )
    return token


class LoginConfig(_Section):
    """Who may log in. Without participants, everybody who can connect may trade and read data."""

    participants: dict[str, ParticipantConfig] = {}
    curve_keys: Path | None = None

    @property
    def has_inline_tokens(self) -> bool:
        """Whether the configuration itself contains a token."""
        return any(own.token and not own.token_file and not own.token_env for own in self.participants.values())

    @model_validator(mode="before")
    @classmethod
    def _fold_tokens(cls, values: Any) -> Any:
        """Converts the older form of participants, `tokens: {name: token}` with `operators: [name]`."""
        if not isinstance(values, dict) or not (values.keys() & {"tokens", "operators"}):
            return values
        folded = {key: value for key, value in values.items() if key not in ("tokens", "operators")}
        tokens, operators = values.get("tokens") or {}, values.get("operators") or []
        participants = values.get("participants") or {}
        if (
            not isinstance(tokens, dict)
            or not isinstance(operators, (list, tuple))
            or not isinstance(participants, dict)
        ):
            raise ValueError(
                "expected tokens: {name: token}, operators: [name] and participants: {name: ...}, got other forms"
            )
        if unknown := [name for name in operators if name not in list(tokens)]:
            raise ValueError(f"operators: expected names with a token in tokens, got {unknown[0]!r}; give it one")
        older = {
            name: {"token": token, "permissions": PERMISSIONS if name in operators else _OPEN}
            for name, token in tokens.items()
        }
        return folded | {"participants": older | participants}

    @field_validator("participants")
    @classmethod
    def _are_names(cls, value: dict[str, ParticipantConfig]) -> dict[str, ParticipantConfig]:
        for name in value:
            if not is_name(name):
                raise ValueError(f"expected names of 1 to 64 printable bytes, got {name[:80]!r}")
        return value

    @model_validator(mode="after")
    def _keys_need_curve(self) -> "LoginConfig":
        if self.curve_keys is None and (named := [name for name, own in self.participants.items() if own.client_key]):
            raise ValueError(f"expected curve_keys with the client_key of {named[0]!r}, got none; set curve_keys")
        return self


class Credential(NamedTuple):
    """What a message proves about its sender: the token in it, and the CURVE key of its connection ("" without CURVE)."""

    token: object
    key: str


class Login:
    """Answers who may do what. Without a participant that may operate, `operator_token` is this start's own operator credential."""

    def __init__(self, config: LoginConfig) -> None:
        self._participants = config.participants
        #: whether participants are configured: then everything except connecting needs a credential
        self.required = bool(config.participants)
        has_operator = any("operate" in own.permissions for own in config.participants.values())
        self.operator_token = "" if has_operator else secrets.token_urlsafe(24)

    @property
    def client_keys(self) -> set[str]:
        """The CURVE keys of the participants."""
        return {own.client_key for own in self._participants.values() if own.client_key}

    def may_log_in(self, name: str, credential: Credential) -> bool:
        """Whether the credential is the participant's, and it may trade."""
        own = self._participants.get(name)
        return not self.required or (own is not None and "trade" in own.permissions and own.matches(*credential))

    def permits(self, permission: Permission, token: object, key: str | None) -> bool:
        """Whether a participant with these credentials has the permission. key: as in ParticipantConfig.matches."""
        if permission in _OPEN and not self.required:
            return True
        granted = [
            own.matches(token, key) for own in self._participants.values() if permission in own.permissions
        ]  # compares all of them, so that the time does not reveal which one matches
        return any(granted) or self.has_operator_token(token)

    def may_read_account(self, name: str, credential: Credential) -> bool:
        """Whether the credential is the participant's or an operator's. On an exchange without participants, any credential may."""
        own = self._participants.get(name)
        return (
            not self.required or (own is not None and own.matches(*credential)) or self.permits("operate", *credential)
        )

    def is_operator(self, name: str) -> bool:
        """Whether the configuration lets a participant operate."""
        own = self._participants.get(name)
        return own is not None and "operate" in own.permissions

    def has_operator_token(self, token: object) -> bool:
        """Whether the token is this start's own operator credential."""
        return bool(self.operator_token) and _equal(self.operator_token, token)


def is_name(name: str) -> bool:
    """Whether a participant can have this name."""
    return name.isprintable() and 1 <= len(name.encode()) <= 64


def _equal(own: str, given: object) -> bool:
    """Compares in constant time. An empty `own` means no credential, and then everything matches."""
    return not own or (isinstance(given, str) and hmac.compare_digest(own.encode(), given.encode()))


def _read_key(path: Path) -> str:
    try:
        text = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"{path}: cannot be read ({error}); give a client.public file of `serl keys`") from None
    if not re.fullmatch(r"\S{40}", text):
        raise ValueError(f"{path}: expected 40 characters of Z85, got something else; give a client.public file")
    return text
