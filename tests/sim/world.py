"""One seed: an exchange and its clients under faults, then good weather, then the checks."""

import contextlib
import hashlib
import io
import re
import shutil
from collections import Counter
from pathlib import Path
from random import Random

from serl.exchange.core import Core, market_limits
from serl.exchange.errors import JournalError
from serl.exchange.journal.repair import repair
from tests.sim import libzmq
from tests.sim.check import (
    check_balances,
    check_client,
    check_folder,
    check_journal,
    check_priority,
    check_reference,
)
from tests.sim.clock import CLOCK
from tests.sim.damage import FlippedBit, tear
from tests.sim.disk import Disk, Image
from tests.sim.history import History, Violation, require
from tests.sim.network import Network
from tests.sim.node import Node
from tests.sim.plan import SYMBOLS, make_plan
from tests.sim.trader import Trader

STEP_NS = 1_000_000
QUIET_STEPS_MAX = 4000
NOTICE_STEPS, NOTICE_STEP_NS = 90, 40_000_000
"""Together 70 intervals of the feed's time: each quiet topic is repeated."""


class World:
    """Everything that one seed simulates."""

    def __init__(self, seed: int, folder: Path) -> None:
        CLOCK.reset()
        self.seed, self.folder = seed, folder
        self.random = Random(seed)
        self.plan = make_plan(self.random, folder)
        self.network = Network(self.random)
        libzmq.reset(self.network)
        self.network.weather, self.tampers = self.plan.weather, self.plan.weather.tampers
        self.disk = Disk(folder, self.random)
        self.disk.on_sync = self._on_sync
        self.node = Node(self.plan.config, self.disk, self.random)
        self.node.on_recovery = self._on_recovery
        config = self.plan.config
        self.is_batch = config.journal.durability == "batch"
        self.limits = market_limits(config)
        self.history = History(list(SYMBOLS), self.limits)
        self.traders = [
            Trader(number, config.endpoint, list(SYMBOLS), self.history, self.network, self.random)
            for number in range(self.plan.traders)
        ]
        self.counts: Counter[str] = Counter()
        self.steps: list[str] = []
        self.synced: dict[int, int] = {}  # first sequence of a file of commands -> its last synced command
        self._until: dict[str, int] = {}
        self._restart_ns = -1
        self._image: Image = {}
        self._ended = ""
        self._flipped: FlippedBit | None = None
        self._damaged: set[str] = set()
        self._is_repaired = False

    # -- the run --------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Faults, then a quiet end, then the checks. Raises Violation."""
        self.node.start()
        for _ in range(self.plan.steps):
            self._faults()
            self._step()
        self.note("good weather")
        self._heal()
        self._settle()
        self._check_quiet()
        self._leave()
        self._stop()
        self._check_end()

    def note(self, text: str, detail: object = "") -> None:
        """Counts what happens, and remembers it for a failing seed."""
        self.counts[text] += 1
        told = f"{text}: {detail}".replace(str(self.folder), "journal") if detail else text
        self.steps.append(f"{CLOCK.monotonic_ns / 1e9 - 1000:9.4f} s  {told}")

    def _step(self) -> None:
        random = self.random
        CLOCK.advance(1 + int(random.expovariate(1 / STEP_NS)))
        self.network.pump()
        for _ in range(random.choice((1, 1, 2, 3))):
            if self.node.process is None or self._ended:
                break
            if self.node.step():
                self._collect()
            elif not self._ended:
                self._died()
        for trader in self.traders:
            if random.random() < 0.6:
                trader.step()
        if self._ended and 0 <= self._restart_ns <= CLOCK.monotonic_ns:
            self._restart()

    def _collect(self) -> None:
        if self.node.is_running and self.node.exchange is not None:
            core = self.node.exchange.core
            self.history.collect(core)
            if not self._is_serving:
                self._is_serving = True
                self._require_cancelled(core, [trader for trader in self.traders if trader.cancels])
            if self.is_batch and core.journal._group_commit is not None:
                executed, synced = len(self.history.rows), self._synced_to()
                require(executed <= synced, f"command {executed} was executed when {synced} were synced")

    # -- faults ---------------------------------------------------------------------------------------------------------

    def _faults(self) -> None:
        for name, rate in self.plan.faults.items():
            if name != "flipped bit" and self.random.random() < rate:
                self._fault(name)
        for name, until_ns in list(self._until.items()):
            if CLOCK.monotonic_ns >= until_ns:
                del self._until[name]
                if name == "full disk":
                    self.disk.is_full = False
                elif name.startswith("partition"):
                    self.network.partitioned.discard(int(name.split()[1]))

    def _fault(self, name: str) -> None:
        random, until_ns = self.random, CLOCK.monotonic_ns + self.random.randrange(1_000_000, 60_000_000)
        is_up = not self._ended
        if name in ("kill", "power cut", "clean stop") and is_up:
            self._end(name)
        elif name.endswith("in a disk call") and is_up and self.disk.kill_after < 0:
            self.disk.kill_after, self._armed = random.randrange(12), name
        elif name == "failing sync":
            self.disk.failing_syncs += 1
        elif name == "full disk":
            self.disk.is_full, self._until[name] = True, until_ns
            self.note(name)
        elif name == "clock jump":
            CLOCK.jump(random.choice((-1, 1)) * random.choice((10**6, 10**9, 3600 * 10**9)))
            self.note(name)
        elif name == "pause":
            CLOCK.advance(random.choice((100_000_000, 2_000_000_000)))
            self.note(name)
        elif name == "partition":
            owner = random.randrange(len(self.traders))
            self.network.partitioned.add(owner)
            self._until[f"partition {owner}"] = until_ns + random.choice((0, 900_000_000))
            self.note(name)
        elif name == "slow reader":
            owner = random.randrange(len(self.traders))
            for each in self.network.connections:
                if each.owner == owner:
                    each.stalled_until_ns = until_ns
            self.note(name)
        elif name == "operator's snapshot":
            self.node.wants_snapshot = True
            self.note(name)
        elif name == "client killed":
            random.choice(self.traders).kill()
            self.note(name)

    def _end(self, name: str) -> None:
        """Ends the process: by a kill, a power cut, or a clean stop."""
        node = self.node
        self._collect()
        if name == "clean stop":
            if not node.is_running or node.exchange is None:
                return
            node.exchange.stop("simulation")
            for _ in range(2000):
                CLOCK.advance(10_000)
                if not node.step():
                    break
                self._collect()
            require(not node.is_running, "the exchange does not stop")
            if self.disk.killed_image is None and node.error is None:
                self._collect_last()
        else:
            node.kill()
        self._ended = name
        self._died()

    def _collect_last(self) -> None:
        if self.node.exchange is not None:
            self.history.collect(self.node.exchange.core)

    def _died(self) -> None:
        """The process is gone: what it leaves, and when another one starts."""
        if not self._ended:
            self._ended = "ended"
            if self.disk.killed_image is not None:
                self._ended = self._armed
                self._collect_last()
            elif self.node.error is not None:
                self._ended = "stopped by an error"
                self._judge_failure(self.node.error)
        self.note(self._ended, self.node.error if self._ended == "stopped by an error" else "")
        self.disk.kill_after = -1
        image = self.node.image()
        if self._flipped is not None:  # the process has ended before it found it
            image, self._flipped = self._flipped.restored(image), None
        if self._ended.startswith("power cut"):
            image = self.disk.after_power_cut()
            self.disk.restore(image, durable=True)
        else:
            if self._ended not in ("clean stop", "stopped by an error") and tear(image, self.random):
                self.note("half a row")
            self.disk.restore(image, durable=False)
        self.disk.close_descriptors()
        self.network.crash()
        self._restart_ns = CLOCK.monotonic_ns + self.random.randrange(1, 40_000_000)
        if self._ended != "stopped by an error":
            self._flip(image)

    def _judge_failure(self, error: BaseException) -> None:
        """Whether an exchange may end with this error."""
        text = str(error)
        if self._flipped is not None and isinstance(error, JournalError):
            self.note("flipped bit refused")
            self._flipped.restore()
            self._flipped = None
        elif "the journal is damaged" in text or "serl journal verify" in text:
            in_any_order = re.search("later ones are valid|fail their checks|is missing", text)
            require(self._was_cut and in_any_order, f"refused to start without damage: {text}")
            self._repair()
        elif "No space left" in text or "free some disk space" in text:
            self.disk.is_full = False
        else:
            require("Input/output error" in text, f"ended with {type(error).__name__}: {text}")

    def _repair(self) -> None:
        target = self.folder.with_name("repaired")
        shutil.rmtree(target, ignore_errors=True)
        with contextlib.redirect_stdout(io.StringIO()):
            repair(self.folder, target)
        self.note("journal repaired")
        self._is_repaired = True
        image = {path.name: path.read_bytes() for path in sorted(target.iterdir())}
        self.disk.restore(image, durable=True)
        shutil.rmtree(target)

    def _flip(self, image: Image) -> None:
        if "meta.json" in image and self.random.random() < self.plan.faults.get("flipped bit", 0.0):
            self._flipped = FlippedBit(self.disk, image, self.random)
            self.note(f"flipped bit in {self._flipped.kind}")

    def _restart(self) -> None:
        self._was_cut = self._was_cut or self._ended.startswith("power cut")
        self._previous, self._ended, self._restart_ns, self._core = self._ended, "", -1, None
        self._is_serving = False
        self.note("start")
        self.node.start()

    _core: Core | None = None
    _was_cut = _is_serving = False
    _previous = "start"
    _armed = "kill in a disk call"

    # -- what each start must have --------------------------------------------------------------------------------------

    def _on_sync(self, descriptor: int) -> object:
        if self._core is None or self._core.journal.commands.file != descriptor:
            return None
        first, last = self._core.journal.commands.first_sequence, self._core.command_sequence

        def done() -> None:
            self.synced[first] = max(last, self.synced.get(first, 0))

        return done

    def _synced_to(self) -> int:
        reached = 0
        for first, last in sorted(self.synced.items()):
            if first <= reached + 1:
                reached = max(reached, last)
        return reached

    def _on_recovery(self, core: Core) -> None:
        self._core = core
        history, found = self.history, core.command_sequence
        known = len(history.rows)
        if found < known:
            require(self._was_cut, f"lost: the start after '{self._previous}' has {found} commands of {known} executed")
            require(
                found >= self._synced_to(), f"lost: {found} commands after a power cut, {self._synced_to()} were synced"
            )
            history.truncate(found)
            for trader in self.traders:
                trader.disconnect(1)
                trader.new_session()
            self.note("unsynced commands lost")
        else:
            history.collect(core)
        self.synced = {first: min(last, found) for first, last in self.synced.items() if first <= found}
        history.replay()
        history.check_reports()
        require(len(history.rows) == found, f"the start has {found} commands, {len(history.rows)} are known")
        require(
            core.market.state_hash() == history.market.state_hash(), "a start has another market than its commands give"
        )
        self._was_cut = False
        if self._flipped is not None:
            self.note("flipped bit harmless")
            if self._flipped.kind == "snapshot":
                self._damaged.add(self._flipped.path.stem)  # the exchange goes on without it
            else:
                self._flipped.restore()
            self._flipped = None

    # -- the end --------------------------------------------------------------------------------------------------------

    def _heal(self) -> None:
        self.network.heal()
        self.disk.is_full, self.disk.failing_syncs, self.disk.kill_after = False, 0, -1
        self.plan.faults.clear()
        for trader in self.traders:
            trader.is_trading = False

    def _settle(self) -> None:
        """Until everybody is logged in and answered; then long enough for every client to notice what it has missed, also of books in which
        nothing happens any more."""
        for attempt in range(2):
            if attempt and self.tampers:  # a last report that got lost is noticed with the next login
                for trader in self.traders:
                    trader.disconnect(1)
            for _ in range(attempt * NOTICE_STEPS):
                CLOCK.advance(NOTICE_STEP_NS)
                self._step()
            for _ in range(QUIET_STEPS_MAX):
                self._step()
                if not self._ended and self.network.is_quiet and all(trader.is_settled for trader in self.traders):
                    break
            else:
                waiting = [trader.name for trader in self.traders if not trader.is_settled]
                raise Violation(f"{waiting or 'the network'} did not come to rest in good weather")

    def _check_quiet(self) -> None:
        assert self.node.exchange is not None
        core, history = self.node.exchange.core, self.history
        history.collect(core)
        history.replay()
        history.check_reports()
        market = core.market
        require(market.state_hash() == history.market.state_hash(), "the market is not the one of its commands")
        check_journal(history)
        check_priority(history.events)
        check_balances(market, history.events, len(history.names), self.plan.fees)
        if self.seed % 8 == 0:
            check_reference(history, list(SYMBOLS), self.limits)
        # a command that is refused, or that tampering loses, is skipped once a later one is accepted
        refuses = self.counts["full disk"] or self.plan.config.limits.messages_per_s_max
        is_strict = not self.tampers and not refuses
        for trader in self.traders:
            check_client(trader, history, market, is_strict)

    def _leave(self) -> None:
        """Some clients vanish; the orders of those that asked for it are cancelled."""
        gone = [trader for trader in self.traders if self.random.random() < 0.6]
        for trader in gone:
            self.network.vanish(trader.number)
            trader.disconnect(1 << 60)
        for _ in range(60):
            CLOCK.advance(20_000_000)
            self._step()
        assert self.node.exchange is not None
        self._require_cancelled(self.node.exchange.core, [trader for trader in gone if trader.cancels])

    def _require_cancelled(self, core: Core, traders: list[Trader]) -> None:
        """Participants without a session that asked for it have no orders."""
        orders = core.market.orders()
        for trader in traders:
            if trader.name in self.history.names:
                number = self.history.names.index(trader.name)
                left = int((orders["participant"] == number).sum())
                require(not left, f"{trader.name} has no session, and {left} of its orders are not cancelled")

    def _stop(self) -> None:
        self._end("clean stop")
        self.history.replay()
        check_folder(self.history, self.folder, self._damaged, self._is_repaired)
        self._restart()
        for _ in range(200):
            self._step()
            if self.node.exchange is not None and self.node.is_running:
                break
        require(self.node.exchange is not None, "the last start does not serve")

    def _check_end(self) -> None:
        self.node.kill()
        check_journal(self.history)

    def digest(self) -> str:
        """Of the whole history: what was sent, executed and received."""
        digest = hashlib.sha256()
        for part in (sorted(self.history.sent.items()), self.steps, sorted(self.history.received)):
            digest.update(repr(part).encode())
        digest.update(self.history.rows.tobytes())
        digest.update(self.history.events.tobytes())
        return digest.hexdigest()[:16]
