"""Planted bugs of sessions, the feed, balances and clients."""

import itertools
import time
from typing import Any

import msgpack
import numpy as np
import zmq

from serl.clients import core as client_core
from serl.clients.core import ClientCore
from serl.clients.feed_state import FeedState
from serl.clients.session import Session
from serl.exchange.control import Control
from serl.exchange.core import Core
from serl.exchange.feed import Feed
from serl.exchange.gateway.feed_state import LOOP, NO_FEED, NOBODY, PYTHON
from serl.exchange.market import Market
from serl.exchange.records import CASH, FEE_MICRO, POSITION, CommandKind, Rows
from serl.exchange.sessions import Sessions
from tests.sim.bugs_disk import SNAPSHOT_SWAP
from tests.sim.planting import bug, replaced


def _executed_again(real: Any) -> Any:
    def raise_error(self: Any, slot: int, rows: Any, **options: Any) -> None:
        command_id, known = int(rows[0]["command_id"]), self._last_sent_id(slot)
        journaled = self._core.journal.commands.rows
        own = journaled[
            (journaled["command_id"] == command_id) & (journaled["participant"] == self._gateway.participant[slot])
        ]
        if command_id <= known and len(own) and own[0]["kind"] == CommandKind.NEW and not self._unexecuted_ids(slot):
            again = own[:1].copy()
            again["command_id"], again["time_ns"] = known + 1, self._clock.now_ns()
            self._core.submit(again)
        real(self, slot, rows, **options)

    return raise_error


def _cancels_forgotten(real: Any) -> Any:
    def welcome(self: Any, message: list[Any]) -> None:
        real(self, message)
        kinds = {key: msgpack.unpackb(value)[0] for key, value in self.unanswered.items()}
        self.unanswered = {key: value for key, value in self.unanswered.items() if kinds[key] != CommandKind.CANCEL}

    return welcome


def _counted_twice(self: Any, first: int, reports: list[Any]) -> list[Any]:
    self.last_report = max(self.last_report, first + len(reports) - 1)
    for report in reports:
        self.apply(report)
    return reports


def _gap_unnoticed(real: Any) -> Any:
    def apply(self: Any, message: list[Any]) -> bool:
        if not self.needs_snapshot and message[1] == self.epoch:
            message = [*message[:2], min(message[2], self.sequence), *message[3:]]
        try:
            return bool(real(self, message))
        except KeyError:
            return False

    return apply


def _epoch_unnoticed(real: Any) -> Any:
    def apply(self: Any, message: list[Any]) -> bool:
        if not self.needs_snapshot and message[1] != self.epoch:
            self.epoch, self.sequence = message[1], message[2]
        try:
            return bool(real(self, message))
        except KeyError:
            return False

    return apply


def _last_left_out(real: Any) -> Any:
    def publish(self: Any, state: Any, events: Rows, start: int, stop: int) -> None:
        real(self, state, events, start, stop - 1 if stop - start > 4 else stop)

    return publish


def _without_levels(real: Any) -> Any:
    calls = itertools.count()

    def serve(self: Any, deadline_ns: int, messages_max: int, feed: Any = NO_FEED, publisher: int = NOBODY) -> int:
        subscribed = feed.subscribed.copy()
        if publisher == LOOP and next(calls) % 5 == 0:
            feed.subscribed[:] = False
        reason = int(real(self, deadline_ns, messages_max, feed, publisher))
        feed.subscribed[:] = subscribed
        return reason

    return serve


def _chain_goes_on(real: Any) -> Any:
    calls = itertools.count()

    def serve(self: Any, deadline_ns: int, messages_max: int, feed: Any = NO_FEED, publisher: int = NOBODY) -> int:
        if publisher == LOOP and next(calls) % 3 == 0:
            feed.previous[:] = -1
        return int(real(self, deadline_ns, messages_max, feed, publisher))

    return serve


def _changed_after_trades(column: int) -> Any:
    def make(real: Any) -> Any:
        def serve(self: Any, *arguments: Any, **options: Any) -> int:
            state = self.market.state
            before = int(state.counters["match_id"][0])
            reason = int(real(self, *arguments, **options))
            if before // 16 != int(state.counters["match_id"][0]) // 16:
                state.balances[int(np.argmax(np.abs(state.balances[:, 0, POSITION]))), 0, column] -= 1
            return reason

        return serve

    return make


def _earlier(real: Any) -> Any:
    def submit(self: Any, rows: Rows) -> None:
        if len(rows) and rows[0]["kind"] == CommandKind.MASS_CANCEL:
            rows["time_ns"] -= 10_000_000
        real(self, rows)

    return submit


def _ask_once(self: Any, queries: Any) -> Any:
    messages = self._queries.add(queries, self.session.token)
    self._queried_s = time.monotonic()
    for message in messages.values():
        self.query(message)
    while self._queries.without_reply(messages):
        self.raise_if_silent()
        yield client_core.REPLY_WAIT_S
    replies = self._queries.replies(messages)
    self._queries.remove(messages)
    return replies


def _dropped_silently(self: Any, route: int, message: bytes) -> bool:
    try:
        self._socket.send_multipart([b"\0" + route.to_bytes(4, "big"), message], zmq.DONTWAIT)
    except zmq.ZMQError:
        return False
    return True


BUGS = {
    "resend executed twice": bug(
        "a command that is sent again is executed again", (Control, "_raise_error", _executed_again)
    ),
    "no cancel on disconnect": bug("orders of a lost session stay", replaced(Sessions, "end", Sessions.close)),
    "no cancel after a restart": bug(
        "orders of the sessions that a restart ends stay", replaced(Sessions, "cancel_after_restart", lambda self: None)
    ),
    "cancel lost on reconnect": bug(
        "a client forgets its unanswered cancels when it logs in again", (Session, "_welcome", _cancels_forgotten)
    ),
    "reports counted twice": bug(
        "a client counts resent reports again", replaced(Session, "_new_reports", _counted_twice)
    ),
    "gap unnoticed": bug("a client does not notice a gap of the feed", (FeedState, "apply", _gap_unnoticed)),
    "restart unnoticed": bug("a client's book goes on over a restart", (FeedState, "apply", _epoch_unnoticed)),
    "last event unpublished": bug(
        "the feed leaves out the last event of a burst",
        (Feed, "publish", _last_left_out),
        replaced(Feed, "publisher", property(lambda self: PYTHON if self.has_subscribers else NOBODY)),
    ),
    "topics forgotten by the loop": bug(
        "now and then the loop publishes nothing on some topics", (Core, "serve", _without_levels), seam="arrays"
    ),
    "chain of the feed broken": bug(
        "a feed message claims that nothing preceded it", (Core, "serve", _chain_goes_on), seam="arrays"
    ),
    "quiet topics unrepeated": bug(
        "the last message of a burst gets lost, and nothing says so",
        replaced(Feed, "repeat_quiet", lambda self, state: None),
        seam="found",
    ),
    "priority lost in a snapshot": bug("a snapshot swaps two orders of a price", (Market, "snapshot", SNAPSHOT_SWAP)),
    "cash lost": bug(
        "now and then a tick of cash is lost", (Core, "serve", _changed_after_trades(CASH)), seam="arrays"
    ),
    "share lost": bug("now and then a share is lost", (Core, "serve", _changed_after_trades(POSITION)), seam="arrays"),
    "fee not charged": bug(
        "now and then a fee is too low", (Core, "serve", _changed_after_trades(FEE_MICRO)), seam="arrays"
    ),
    "time goes back": bug("a cancel on disconnect has an earlier time", (Core, "submit", _earlier)),
    "command during a login": bug(
        "a client's new command overtakes those without an answer",
        replaced(ClientCore, "send_command", ClientCore.send),
        seam="found",
    ),
    "asked once": bug(
        "a client waits forever for the reply to a query that got lost",
        replaced(ClientCore, "_ask_in_flight", _ask_once),
        seam="found",
    ),
    "answer dropped": bug(
        "an answer to a full session is dropped without a word",
        replaced(Sessions, "send", _dropped_silently),
        seam="found",
    ),
}
