"""One account of the gateway: its link to the exchange, its balances, and the listeners to its events."""

import asyncio
import secrets
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from decimal import Decimal
from typing import Any

from serl.exchange.records import Side
from serl.gateways.accounts import GatewayAccount
from serl.gateways.binance.api_keys import ApiKey
from serl.gateways.binance.errors import BinanceError
from serl.gateways.binance.hub import encode
from serl.gateways.binance.link import AccountLink
from serl.gateways.binance.listing import Listings
from serl.gateways.binance.order_json import execution_report, list_status
from serl.gateways.binance.orders import PENDING, Execution, SpotOrder
from serl.gateways.binance.scale import Scale

LISTEN_KEY_S = 3600.0
CANCEL_IDS_KEPT = 10_000
Take = Callable[[str], None]
"""Takes an event of the user data stream, as JSON."""


class Account:
    """One account.

    Attributes:
        api_key: verifies its signatures.
        link: its orders and its session.
        cancel_ids: the client's id of each cancel, by command id.
        listen_keys: keys of the user data stream and when they end, in monotonic seconds.
    """

    def __init__(self, settings: GatewayAccount, api_key: ApiKey, link: AccountLink, listings: Listings) -> None:
        self.settings, self.api_key, self.link, self._listings = settings, api_key, link, listings
        self.cancel_ids: dict[int, str] = {}
        self.listen_keys: dict[str, float] = {}
        self._takers: dict[object, Take] = {}
        self._by_listen_key: dict[str, dict[object, Callable[[], None]]] = {}  # end the streams of each key
        self._amending: weakref.WeakValueDictionary[int, asyncio.Lock] = weakref.WeakValueDictionary()
        self._position_ms: int | None = None  # time of the last execution whose balances have not been queried
        self._positions: asyncio.Task[None] | None = None
        link.orders.on_execution = self._on_execution

    @property
    def login(self) -> str:
        """The API key."""
        return self.settings.login

    def note_cancel(self, command_id: int, client_id: str) -> None:
        """Keeps the client's id of a cancel until its report arrives."""
        self.cancel_ids[command_id] = client_id
        while len(self.cancel_ids) > CANCEL_IDS_KEPT:
            del self.cancel_ids[next(iter(self.cancel_ids))]

    def amending(self, order_id: int) -> asyncio.Lock:
        """A lock that admits one amendment of an order at a time: the next one must start from the quantity that the previous one leaves."""
        return self._amending.setdefault(order_id, asyncio.Lock())

    def listen(self, key: object, take: Take) -> None:
        """Sends every event to `take` from now on."""
        self._takers[key] = take

    def leave(self, key: object) -> None:
        """Ends `listen`."""
        self._takers.pop(key, None)
        for streams in self._by_listen_key.values():
            streams.pop(key, None)

    def listen_by_key(self, listen_key: str, key: object, take: Take, end: Callable[[], None]) -> None:
        """Sends every event to `take` until the listen key ends: then calls `end`."""
        self.listen(key, take)
        if listen_key not in self._by_listen_key:
            self._by_listen_key[listen_key] = {}
            self._await_end(listen_key)
        self._by_listen_key[listen_key][key] = end

    def end_listen_key(self, listen_key: str) -> None:
        """Ends a key and its streams."""
        self.listen_keys.pop(listen_key, None)
        for key, end in self._by_listen_key.pop(listen_key, {}).items():
            self.leave(key)
            end()

    def _await_end(self, listen_key: str) -> None:
        left_s = self.listen_keys.get(listen_key, 0.0) - time.monotonic()
        if left_s > 0:
            asyncio.get_running_loop().call_later(left_s, self._await_end, listen_key)
        else:
            self.end_listen_key(listen_key)

    def new_listen_key(self) -> str:
        """A key for the user data stream: the current one if there is one."""
        now_s = time.monotonic()
        self.listen_keys = {key: end_s for key, end_s in self.listen_keys.items() if end_s > now_s}
        key = next(iter(self.listen_keys), None) or secrets.token_urlsafe(48)[:60].replace("-", "x").replace("_", "y")
        self.listen_keys[key] = now_s + LISTEN_KEY_S
        return key

    def has_listen_key(self, key: str) -> bool:
        """Whether a key is valid."""
        return self.listen_keys.get(key, 0.0) > time.monotonic()

    def tell(self, event: dict[str, Any]) -> None:
        """Sends an event to all listeners."""
        text = encode(event)
        for take in list(self._takers.values()):
            take(text)

    def _on_execution(self, execution: Execution) -> None:
        if not self._takers:
            return
        cancel_id = self.cancel_ids.get(execution.command_id, "") if execution.kind == "CANCELED" else ""
        self.tell(execution_report(execution, cancel_id, time.time_ns() // 1_000_000))
        list_id = execution.order.record.list_id
        if list_id >= 0 and (execution.kind != "TRADE" or not execution.order.open):
            self._tell_list(self.link.orders.lists[list_id])
        self._position_ms = execution.time_ms
        if self._positions is None:
            self._positions = asyncio.get_running_loop().create_task(self._tell_positions())

    def _tell_list(self, orders: list[SpotOrder]) -> None:
        """Sends the event of a list that is complete or done."""
        states = {order.open for order in orders}
        if len(orders) == orders[0].record.list_size and len(states) == 1:
            self.tell(list_status(orders, time.time_ns() // 1_000_000))

    async def _tell_positions(self) -> None:
        """Sends the balances once for executions that arrived together, and again for those that arrive while the balances are queried."""
        try:
            while self._position_ms is not None:
                await asyncio.sleep(0)
                update_ms, self._position_ms = self._position_ms, None
                with suppress(BinanceError):  # the exchange is away: the next execution brings them
                    self._tell_position(update_ms, await self.balances())
        finally:
            self._positions = None

    def _tell_position(self, update_ms: int, balances: list[dict[str, str]]) -> None:
        rows = [{"a": each["asset"], "f": each["free"], "l": each["locked"]} for each in balances]
        self.tell({"e": "outboundAccountPosition", "E": time.time_ns() // 1_000_000, "u": update_ms, "B": rows})

    async def balances(self) -> list[dict[str, str]]:
        """asset, free and locked of each asset. Raises BinanceError if the exchange is away.

        For an account with deposits or balance checks the total of an asset is its balance on the exchange, otherwise its initial balance here plus
        the effect of trades and fees. Locked is the amount that the exchange has reserved for open orders, or without balance checks the amount that
        they would use; free is the rest, below 0 if the account is short or in debt.
        """
        checked, held = await self.link.assets()
        totals = dict.fromkeys(self._listings.assets, Decimal(0))
        if checked or held:
            totals |= {self._listings.asset(asset): balance for asset, (balance, _) in held.items()}
        else:
            await self._add_trades(totals)
        locked = {self._listings.asset(asset): reserved for asset, (_, reserved) in held.items()}
        if not checked:
            locked = self._locked()
        return [
            {"asset": asset, "free": _text(total - locked.get(asset, Decimal(0))), "locked": _text(locked.get(asset, Decimal(0)))}
            for asset, total in totals.items()
        ]  # fmt: skip

    async def _add_trades(self, totals: dict[str, Decimal]) -> None:
        """Adds the start balances, positions, and cash less fees."""
        made = await self.link.balances()
        for asset, amount in self.settings.balances.items():
            if asset.upper() in totals:
                totals[asset.upper()] += amount
        for listing in self._listings.by_name.values():
            if (balance := made.get(listing.instrument.name)) is not None:
                totals[listing.base] += balance.position_lots * listing.instrument.lot_size
                totals[listing.quote] += balance.cash - balance.fees

    def _locked(self) -> dict[str, Decimal]:
        found: dict[str, Decimal] = {}
        for order in self.link.orders.open.values():
            if order.status == PENDING:
                continue
            listing = order.listing
            buys = order.record.side == Side.BUY
            asset = listing.quote if buys else listing.base
            unit = (
                listing.amounts.unit * (order.price_ticks or order.record.stop_ticks)
                if buys
                else listing.quantities.unit
            )
            found[asset] = found.get(asset, Decimal(0)) + unit * order.leaves_lots
        return found


_EIGHT = Scale(Decimal("0.00000001"))


def _text(amount: Decimal) -> str:
    """Formats an amount with eight decimal places, rounded down."""
    return _EIGHT.text(int((amount * 10**8).to_integral_value(rounding="ROUND_FLOOR")))
