"""Commands whose calls wait for an answer."""

from collections.abc import Iterable, Iterator

from serl.clients.errors import Rejected, RequestRejected, refused_command
from serl.clients.inbox import InboxItem, rejections
from serl.clients.session import Session
from serl.exchange.records import Reason


class Awaited:
    """Why each of them was not taken, if it was not: the answer may come while another call receives."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._found: dict[
            int, int | RequestRejected
        ] = {}  # a `Reason`, or what the exchange refused; 0: nothing so far

    def add(self, command_id: int) -> None:
        """A call waits for the answer to a command from now on."""
        self._found[command_id] = 0

    def remove(self, command_id: int) -> None:
        """It no longer waits."""
        del self._found[command_id]

    def has_answer(self, command_id: int, command: str) -> bool:
        """Whether the exchange has answered a command. Raises `Rejected` and `RequestRejected`; command: what to call it then."""
        found = self._found[command_id]
        if isinstance(found, RequestRejected):
            raise found
        if found:
            raise Rejected(Reason(found).name, command)
        return not self._session.is_waiting(command_id)

    def note(self, items: Iterable[InboxItem]) -> None:
        """Takes what has arrived."""
        if not self._found:
            return
        for item in items:
            for command_id, reason in rejections(item):
                if command_id in self._found:
                    self._found[command_id] = reason

    def note_refusal(self, error: RequestRejected) -> bool:
        """Whether a refusal names one of the commands, or the first of its terms, which are refused with it."""
        refused, term_ids = refused_command(error), self._session.term_ids
        command_id = next((each for each in self._found if refused == each or refused in term_ids.get(each, ())), None)
        if command_id is None:
            return False
        self._session.withdraw(command_id, error.code)
        self._found[command_id] = error
        return True

    def replayed(self) -> Iterator[bytes]:
        """After a login, those that were executed before it. Sent again, they are answered even if their reports are gone."""
        return (self._session.replayed[each] for each in self._found if each in self._session.replayed)
