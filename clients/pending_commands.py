"""Commands whose calls wait for an answer."""

from collections.abc import Iterable, Iterator

from serl.clients.errors import RequestRejected, refused_command
from serl.clients.inbox import InboxItem, rejections
from serl.clients.session import Session
from serl.exchange.reasons import rejected
from serl.exchange.records import Reason


class PendingCommands:
    """Notes which of these commands were rejected or refused, and why: the answer may arrive while another call is receiving."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: dict[
            int, int | RequestRejected
        ] = {}  # by command id: a `Reason`, or the refusal of the exchange; 0: neither so far

    def add(self, command_id: int) -> None:
        """From now on a call waits for the answer to this command."""
        self._found[command_id] = 0

    def remove(self, command_id: int) -> None:
        """Forgets the command: no call waits for its answer any longer."""
        del self._found[command_id]

    def has_answer(self, command_id: int, command: str) -> bool:
        """Whether the exchange has answered a command. Raises `Rejected` or `RequestRejected`; command: its name in the error message."""
        found = self._found[command_id]
        if isinstance(found, RequestRejected):
            raise found
        if found:
            raise rejected(Reason(found), command)
        return not self._session.is_waiting(command_id)

    def note(self, items: Iterable[InboxItem]) -> None:
        """Notes the rejections among items that have arrived."""
        if not self._found:
            return
        for item in items:
            for command_id, reason in rejections(item):
                if command_id in self._found:
                    self._found[command_id] = reason

    def note_refusal(self, error: RequestRejected) -> bool:
        """Notes a refusal; returns whether it names one of the commands, or the first of its terms, which are refused with it."""
        command_id = self._session.owner_of(refused_command(error))
        if command_id not in self._found:
            return False
        self._session.withdraw(command_id, error.code)
        self._found[command_id] = error
        return True

    def replayed(self) -> Iterator[bytes]:
        """After a login, the commands that were executed before it. If they are sent again, they are answered even if their reports are gone."""
        return (self._session.replayed[each] for each in self._found if each in self._session.replayed)
