"""The participants of an exchange: their names and numbers, and which of them are operators. The journal keeps them."""

from collections.abc import Collection, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.exchange.account_config import AccountLimits
from serl.exchange.config import ExchangeConfig
from serl.exchange.core import Core
from serl.exchange.errors import ConfigError, DiskFullError
from serl.exchange.gateway.state import FREE
from serl.exchange.journal.depositors import depositors
from serl.exchange.journal.participants_file import EXCHANGE_NAME
from serl.exchange.login import Login
from serl.exchange.records import Rows
from serl.exchange.renumber import renumber
from serl.exchange.wire import RequestError


class Participants:
    """The participants of one exchange."""

    def __init__(self, core: Core, config: ExchangeConfig, login: Login) -> None:
        self._core, self._config, self._login = core, config, login
        self._numbers = {entry["name"]: number for number, entry in enumerate(core.journal.participants)}
        self._unsaved: dict[int, int] = {}  # by number: the request to save its entry, 0 = none yet
        self._cancelled_before: dict[
            int, bool
        ] = {}  # by number: the saved value of cancel_on_disconnect, where it is to change
        self._refresh_operators()

    def find(self, name: str) -> int | None:
        """The number of a participant; None if no participant has this name."""
        return self._numbers.get(name)

    def number(self, name: str) -> int:
        """The number of a participant. Raises RequestError `login` if no participant has this name."""
        if name not in self._numbers:
            raise RequestError("login", f"no participant {name[:80]!r} has logged in yet")
        return self._numbers[name]

    def number_or_new(self, name: str) -> int:
        """The number of a participant, which is created if it has never logged in."""
        if name not in self._numbers:
            self.create(name)
        number = self._numbers[name]
        if number in self._unsaved:
            self.save()
        return number

    def exchange(self) -> int:
        """The participant that issues the exchange's own operator commands; nobody can log in under its name."""
        return self.number_or_new(EXCHANGE_NAME)

    def accounts(self) -> dict[int, AccountLimits]:
        """The configured accounts by participant. Creates named participants that have never logged in, and the exchange's own participant, because its first
        command may be due when all names are used or the disk is full. Raises ConfigError if there are too many."""
        try:
            self.exchange()
        except RequestError as error:
            if error.code != "login":
                raise
            raise ConfigError(
                f"limits.participants_max: expected room for the exchange's own participant besides {len(self._numbers)} others, got none; raise it by one"
            ) from None
        for name in self._config.accounts:
            self.number_or_new(name)
        return {number: self.account(number) for number in self._numbers.values()}

    def account(self, number: int) -> AccountLimits:
        """The configured account of a participant; an operator has none unless the configuration names it."""
        others = AccountLimits() if self.is_operator(number) else self._config.other_accounts
        return self._config.accounts.get(self.name(number), others)

    def deposited(self) -> set[int]:
        """The participants that had deposits at an earlier start or have deposits now."""
        entries, deposits = self._core.journal.participants, self._core.market.state.deposits
        found = {number for number, entry in enumerate(entries) if entry.get("deposited") or deposits[number].any()}
        named = {self._numbers[name] for name, account in self._config.accounts.items() if account.balances}
        if any("deposited" not in entries[number] for number in named - found):  # of an earlier version, or repaired
            found |= depositors(self._core.journal, self._core.gateway)
        return found

    def note_deposits(self, before: Collection[int]) -> None:
        """Saves which participants have deposits after this start, once the commands are on the disk. `before`: those that had deposits before."""
        changed = False
        for number, entry in enumerate(self._core.journal.participants):
            had = number in before or bool(self._core.market.state.deposits[number].any())
            changed |= entry.get("deposited") is not had
            entry["deposited"] = had
        if changed:
            self._core.journal.request_save()

    def name(self, number: int) -> str:
        """The name of a participant."""
        return str(self._core.journal.participants[number]["name"])

    def create(self, name: str) -> int:
        """Creates a participant, which must be saved before its first command. Raises RequestError if there are too many."""
        number = len(self._numbers)
        operator = self._may_operate(name)
        entry = {"name": name, "cancel_on_disconnect": False, "operator": operator, "deposited": False}
        if number < len(self._core.gateway.live_session):
            self._core.journal.participants.append(entry)
        else:
            number = self._unused()
            del self._numbers[self.name(number)]
            self._core.journal.participants[number] = entry
        self._numbers[name], self._unsaved[number] = number, 0
        if operator:
            self._core.market.grant_operator(number)
        return number

    def save(self) -> None:
        """Saves the participants. Raises RequestError if the disk is full."""
        try:
            self._core.journal.save_participants()
        except DiskFullError as error:
            raise RequestError("disk_full", str(error)) from None
        self._unsaved.clear()
        self._cancelled_before.clear()

    def cancels_on_disconnect(self, number: int) -> bool:
        """Whether the orders of a participant are cancelled when its session ends."""
        return bool(self._core.journal.participants[number]["cancel_on_disconnect"])

    def set_cancel_on_disconnect(self, number: int, cancels: bool) -> None:
        """Changes the setting, which is then saved in the background."""
        entry = self._core.journal.participants[number]
        if entry["cancel_on_disconnect"] != cancels:
            self._cancelled_before.setdefault(number, entry["cancel_on_disconnect"])
            entry["cancel_on_disconnect"] = cancels
            self._unsaved[number] = self._core.journal.request_save()

    @property
    def saves_done(self) -> int:
        """A value that changes whenever `is_saved` may."""
        return self._core.journal.participants_file.requests_done

    def is_saved(self, number: int) -> bool:
        """Whether the current state of a participant is saved; if not, it is being saved. Raises RequestError if the disk is full."""
        if number not in self._unsaved:
            return True
        request = self._unsaved[number] or self._core.journal.request_save()
        self._unsaved[number] = request
        try:
            if not self._core.journal.participants_file.is_saved(request):
                return False
        except DiskFullError as error:
            self._unsaved[number] = 0  # the next login tries again
            entry = self._core.journal.participants[number]
            entry["cancel_on_disconnect"] = self._cancelled_before.pop(number, entry["cancel_on_disconnect"])
            raise RequestError("disk_full", str(error)) from None
        del self._unsaved[number]
        self._cancelled_before.pop(number, None)
        return True

    def _unused(self) -> int:
        """A participant without configuration that never did anything, so that its number can be given to another name."""
        count = len(self._numbers)
        for number in self._unused_numbers(count):
            if self.name(number) not in self._config.accounts:
                return number
        raise RequestError("login", f"all {count} participants (participants_max) exist; log in under an existing name")

    def _unused_numbers(self, count: int) -> list[int]:
        """Those of the first `count` participants that never sent or received anything, have no session and no account settings of their own, and are
        not operators."""
        state: Any = self._core.market.state
        gateway = self._core.gateway
        others = np.zeros(state.accounts.shape[1], np.int64)
        for setting, value in self._config.other_accounts.settings():
            others[setting] = value
        used = (state.last_command_id[:count] != 0) | (state.report[:count] != 0) | (gateway.last_sent_id[:count] != 0)
        used |= (state.accounts[:count] != 0).any(axis=1) & (state.accounts[:count] != others).any(axis=1)
        used |= state.deposits[:count].any(axis=1) | (state.operator[:count] != 0) | (gateway.staged_rows[:count] != 0)
        used[gateway.participant[gateway.status != FREE]] = True
        used[[number for number in self._unsaved if number < count]] = True  # of a waiting login
        return [int(number) for number in np.flatnonzero(~used)]

    # -- operators ------------------------------------------------------------------------------------------------------

    def is_operator(self, number: int) -> bool:
        """Whether a participant may send operator commands."""
        return bool(self._core.market.state.operator[number])

    def grant_operator(self, number: int) -> None:
        """Grants operator rights to a participant that has logged in with the operator's token, or whose recorded commands an operator sends."""
        if self.is_operator(number):
            return
        if self._core.gateway.staged_rows[number]:
            raise RequestError(
                "duplicate_login",
                f"commands that {self.name(number)} sent without an operator's rights still wait for their arrival; try again later",
            )
        if self._core.market.state.last_command_id[number]:
            self._save_before_change()  # a restart must not execute its earlier commands as an operator's
        self._core.market.grant_operator(number)
        entry = self._core.journal.participants[number]
        entry["operator"] = entry["granted"] = True
        self._unsaved[number] = 0  # if the disk is full, the next login tries again
        self.save()

    def _refresh_operators(self) -> None:
        """Applies the operators of the current configuration. The journaled commands ran with the previous operators, so if the operators have changed,
        a snapshot is written: a restart then need not execute those commands again. The previous operators are noted in case it is damaged."""
        participants = self._core.journal.participants
        operators = [self._may_operate(entry["name"], entry) for entry in participants]
        self._core.market.state.operator[: len(participants)] = operators
        if operators != [entry.get("operator") for entry in participants]:
            self._core.save_snapshot()
            self._core.journal.note_operators(self._core.command_sequence)
            for entry, operator in zip(participants, operators, strict=True):
                entry["operator"] = operator
            self._core.journal.save_participants()

    def _may_operate(self, name: str, entry: Mapping[str, object] = MappingProxyType({})) -> bool:
        """Whether a participant may operate. `entry`: its entry in the journal. On an open exchange a granted operator stays one."""
        granted = not self._login.required and entry.get("granted") is True
        return name == EXCHANGE_NAME or granted or self._login.is_operator(name)

    def _save_before_change(self) -> None:
        """Saves a snapshot, waits for it, and notes which participants were operators before it. Raises RequestError if the disk is full."""
        try:
            self._core.save_snapshot()
            self._core.journal.wait_for_snapshot()
            self._core.journal.note_operators(self._core.command_sequence)
        except DiskFullError as error:
            raise RequestError("disk_full", str(error)) from None

    # -- recorded days --------------------------------------------------------------------------------------------------

    def map_recorded(self, owner: str, rows: Rows) -> None:
        """Replaces the participants of a recorded day's COMMAND rows by this exchange's numbers, as operators: 0 is the exchange itself,
        n is the participant OWNER/n. All become operators because a recorded day has only permitted commands."""

        def mapped(numbers: NDArray[np.int64]) -> NDArray[np.int64]:
            unique, inverse = np.unique(numbers, return_inverse=True)
            return np.array([self._recorded(owner, number) for number in unique.tolist()], np.int64)[inverse]

        renumber(rows, mapped)

    def _recorded(self, owner: str, recorded: int) -> int:
        if recorded == 0:
            return self.exchange()
        name = f"{owner}/{recorded}"
        number = self.number_or_new(name)
        if not self.is_operator(number) and self._has_session(number):
            raise RequestError(
                "duplicate_login", f"{name} has a live session, which would become an operator's; end it first"
            )
        self.grant_operator(number)
        return number

    def _has_session(self, number: int) -> bool:
        gateway = self._core.gateway
        return bool(np.any((gateway.participant == number) & (gateway.status != FREE)))
