"""Reference data and trading status: SecurityListRequest (x), SecurityDefinitionRequest (c), SecurityStatusRequest (e)."""

from collections.abc import Callable
from typing import Any

from serl.clients.asynchronous import AsyncExchange
from serl.clients.values import FeedMessage
from serl.exchange.errors import SerlError
from serl.exchange.records import HaltReason, Phase
from serl.exchange.symbol_rules import SymbolRules
from serl.gateways.fix.codec import Message
from serl.gateways.fix.instruments import Quoting
from serl.gateways.fix.interfaces import Owner
from serl.gateways.fix.session import FixSession
from serl.gateways.fix.tasks import Tasks

REQUESTS_MAX = 64
"""Maximum number of simultaneous subscriptions of a session to trading statuses."""
HALTED, READY, NOT_AVAILABLE = 2, 17, 18
_STATUSES = {
    Phase.CONTINUOUS: READY, Phase.PRE_OPEN: 21, Phase.OPENING: 22, Phase.INTRADAY: 5, Phase.VOLATILITY: 5, Phase.CLOSING: 5,
    Phase.CLOSED: NOT_AVAILABLE,
}  # fmt: skip
"""SecurityTradingStatus (326) by phase; 5: orders are collected for an auction."""


class ReferenceData:
    """Answers one session's requests about symbols."""

    def __init__(
        self, session: FixSession, exchange: AsyncExchange, quotings: dict[str, Quoting], owner: Owner
    ) -> None:
        self._session, self._exchange, self._quotings, self._owner = session, exchange, quotings, owner
        self._followed: dict[str, str] = {}  # symbols by SecurityStatusReqID
        self._unanswered: set[str] = set()  # of these, those that no status has been sent for
        self._tasks = Tasks()
        self.receivers: dict[str, Callable[[Message], None]] = {
            "x": self._list, "c": self._definition, "e": self._status_request,
        }  # fmt: skip

    @property
    def waiting(self) -> int:
        """The number of requests that wait for an answer from the exchange."""
        return len(self._tasks)

    def close(self) -> None:
        """Ends everything under way."""
        self._tasks.cancel()

    @staticmethod
    def _instrument(quoting: Quoting, rules: SymbolRules) -> str:
        """Symbol, tick size and round lot. There is one tick size for all prices, so it fits at every level of a tick table."""
        tick_size, round_lot = quoting.tick_size * rules.common_multiple, quoting.lot_size * rules.lot_multiple
        return f"55={quoting.name}\x01870=1\x01871=99\x01872=TickSize={tick_size:f}\x01561={round_lot:f}\x01"

    async def _tell(self, kind: str, head: str, found: list[Quoting]) -> None:
        """Sends a message about symbols once the exchange has told their rules, which operators and a replayed day may change."""
        try:
            rules = await self._exchange.rules_of(quoting.name for quoting in found)
        except SerlError:
            return  # the exchange is away; the session notices that by itself
        self._session.begin()
        self._session.send(kind, f"{head}{''.join(map(self._instrument, found, rules))}")
        self._owner.flush()

    def _list(self, message: Message) -> None:
        fields = message.fields
        names = list(self._quotings) if fields["559"] == "4" else [fields.get("55", "")]
        found = [self._quotings[name] for name in names if name in self._quotings]
        result = 0 if found else 2 if fields["559"] == "0" else 1
        head = f"320={fields['320']}\x01322={fields['320']}\x01560={result}\x01"
        if found:
            self._tasks.run(self._tell("y", f"{head}393={len(found)}\x01893=Y\x01146={len(found)}\x01", found))
        else:
            self._session.send("y", head)

    def _definition(self, message: Message) -> None:
        fields = message.fields
        quoting = self._quotings.get(fields.get("55", ""))
        head = f"320={fields['320']}\x01322={fields['320']}\x01"
        if quoting is None:
            text = f"expected one of {', '.join(self._quotings)[:120]}, got {fields.get('55', 'none')}"
            self._session.send("d", f"{head}323=6\x0158={text}\x01")
        else:
            self._tasks.run(self._tell("d", f"{head}323=1\x01", [quoting]))

    def _status_request(self, message: Message) -> None:
        fields = message.fields
        symbol, request_id = fields.get("55", ""), fields["324"]
        if symbol not in self._quotings:
            text = f"expected one of {', '.join(self._quotings)[:120]}, got {symbol or 'none'}"
            self._session.business_reject(message, 2, text, request_id)
            return
        if fields["263"] == "2":
            ended = self._followed.pop(request_id, None)
            self._unanswered.discard(request_id)
            if ended is not None and ended not in self._followed.values():
                self._exchange.unsubscribe("status", ended)
            return
        if fields["263"] == "1":
            if request_id in self._followed or len(self._followed) >= REQUESTS_MAX:
                text = f"expected a new SecurityStatusReqID (324), of at most {REQUESTS_MAX} subscriptions, got another; end one"
                self._session.business_reject(message, 0, text, request_id)
                return
            if symbol not in self._followed.values():
                self._exchange.subscribe("status", symbol)
            self._followed[request_id] = symbol
            self._unanswered.add(request_id)
        self._tasks.run(self._ask(symbol, request_id, fields["263"] == "1"))

    async def _ask(self, symbol: str, request_id: str, stays: bool) -> None:
        try:
            status = await self._exchange.status(symbol)
        except SerlError:
            return  # the exchange is away; the session notices that by itself
        if stays and request_id not in self._unanswered:
            return  # the feed has brought a later one
        self._session.begin()
        self._send(symbol, request_id, status.halted, status.phase, status.reason)
        self._owner.flush()

    def take(self, item: Any) -> bool:
        """Forwards a status message of the feed to the client. Returns whether the item is one."""
        if not isinstance(item, FeedMessage) or not item.topic.startswith("status/"):
            return False
        symbol = item.topic.split("/")[1]
        halted, phase, reason = item.message[5]
        for request_id, followed in self._followed.items():
            if followed == symbol:
                self._send(symbol, request_id, bool(halted), Phase(phase), HaltReason(reason))
        return True

    def _send(self, symbol: str, request_id: str, halted: bool, phase: Phase, reason: HaltReason) -> None:
        self._unanswered.discard(request_id)
        status = HALTED if halted else _STATUSES[phase]
        why = f" {reason.name}" if reason else ""
        text = f"{'HALTED' if halted else phase.name}{why}"
        news = "327=P\x01" if halted and reason == HaltReason.NEWS else ""
        self._session.send_fleeting("f", f"324={request_id}\x0155={symbol}\x01326={status}\x01{news}58={text}\x01")
