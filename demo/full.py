"""The whole of serl in processes of their own: an exchange, a market in it, a page to watch it, an executor, the researcher.

First a TWAP works a parent order; when the researcher has ended, the policy that it found works as large an order later in the same market.
"""

import contextlib
import dataclasses
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from serl.clients.dashboard.progress import Progress
from serl.clients.processes import Child, ProcessFailed, child
from serl.clients.replay import set_clock
from serl.demo import research
from serl.demo.market import SECOND_NS, Watcher
from serl.demo.order import CLOSE, OPEN, DemoOrder
from serl.demo.source import Source
from serl.exchange.clock import SAME_TIME
from serl.exchange.config import time_of_day_ns, time_of_day_text
from serl.exchange.ports import free_port

LATE = "15:00"
"""Of the market's day: it waits from then on for a researcher that has not ended."""
EXECUTIONS = "twap", "learnt"
RESEARCH = "model", "researcher"
"""Children without which the rest of the demo goes on."""
LOOK_S = 0.25
LATER = 5
"""Added to the niceness of the researcher: a market in lockstep is as quick as its slowest turn."""
LEAD_S = 300
"""Of the market's time before the window of the second order: its policy sees some of the market first."""
Steps = Iterator[str | None]
"""What to say, or None: a moment has passed."""


@dataclass(frozen=True)
class Plan:
    """What is shown. page: port of the dashboard, None without one."""

    source: Source
    speed: float
    output: Path
    page: int | None
    researcher: bool

    @property
    def order(self) -> DemoOrder:
        """The first one."""
        return self.source.order

    @property
    def research(self) -> Path:
        """Folder of the researcher's run."""
        return self.output / "researcher"

    @property
    def flow(self) -> Path:
        """Folder in which the hosts and the executions count what each kind of trader sends."""
        return self.output / "flow"


@dataclass
class Scene:
    """The processes of a demo."""

    plan: Plan
    stack: contextlib.ExitStack
    watcher: Watcher | None = None
    endpoint: str = field(default_factory=lambda: f"tcp://127.0.0.1:{free_port()}")
    children: dict[str, Child] = field(default_factory=dict)
    executions: dict[str, Progress] = field(default_factory=dict)
    """How far those are that have begun."""
    executed: list[str] = field(default_factory=list)
    """Names of the executions that have ended."""
    unresearched: ProcessFailed | None = None
    """Why the researcher did not end, if it failed."""

    def start(self, name: str, *arguments: str) -> Child:
        """A child that lives as long as the scene."""
        self.children[name] = self.stack.enter_context(child(self.plan.output, name, *arguments))
        return self.children[name]

    def run(self) -> Steps:
        """All of it."""
        self._forget()
        yield from self._exchange()
        self._execute("twap", "twap", self.plan.order)
        yield from self._logged_in(2)
        yield from self._market()
        if self.plan.researcher:
            yield from self._research()
        yield from self._ended("twap")
        self.executed.append("twap")
        if "researcher" in self.children:
            yield from self._researched()
            if self.unresearched is None:
                yield from self._winner()

    def _forget(self) -> None:
        """Removes what an earlier demo left; in a folder of anybody else's nothing is touched."""
        if not (self.plan.output / "exchange.log").exists():
            return
        for name in ("researcher", "flow", *EXECUTIONS):
            shutil.rmtree(self.plan.output / name, ignore_errors=True)
            Path(self.progress(name)).unlink(missing_ok=True)

    def _exchange(self) -> Steps:
        plan = self.plan
        journal = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="serl-demo-"))
        exchange = self.start(
            "exchange", "exchange", "start", "--symbols", plan.source.symbols, "--endpoint", self.endpoint, "--journal", journal,
            *self._clock(),
        )  # fmt: skip
        yield "starting the exchange; the first start on a machine compiles the order book, about a minute"
        exchange.wait_for_line("  journal")
        self.watcher = Watcher(self.endpoint, plan.order.symbol)
        self.stack.callback(self.watcher.close)
        yield f"exchange of {plan.order.symbol} on {self.endpoint}, {plan.speed:g} x real time"
        if plan.page is not None:
            page = self.start(
                "dashboard", "dashboard", "--connect", self.endpoint, "--port", str(plan.page), *self._shown()
            )
            yield from page.wait_for_line("operator")

    def _clock(self) -> Iterator[str]:
        """History is sent on time by a replayer that sets the clock; simulated traders answer what they see, so that the clock waits for them."""
        plan, source = self.plan, self.plan.source
        yield from ("--clock-start", OPEN)
        if source.day is not None:
            yield from ("--clock", f"scaled:{plan.speed:g}", "--hold")
        else:
            yield from ("--clock", f"lockstep:{plan.speed:g}", "--participants", str(source.hosts + 1))

    def _shown(self) -> Iterator[str]:
        """What the dashboard follows beside the exchange. Without a researcher there is no second execution."""
        yield from self._flow()
        if self.plan.researcher:
            yield from ("--researcher", str(self.plan.research))
        for name in EXECUTIONS if self.plan.researcher else EXECUTIONS[:1]:
            yield from ("--execution", self.progress(name))

    def _flow(self) -> Iterator[str]:
        """Where is told who sends what; history has no kinds of traders."""
        if self.plan.source.day is None:
            yield from ("--flow", str(self.plan.flow))

    def _market(self) -> Steps:
        """History, which sets the clock itself, or simulated traders, which the clock waits for."""
        plan, source = self.plan, self.plan.source
        if source.day is not None:
            pace = ("--speed", f"{plan.speed:g}", "--wait-for", "1")
            self.start("market", "replay", str(source.day), "--connect", self.endpoint, *pace)
            yield f"market: {source.day} is replayed"
            return
        assert source.population is not None
        traders = ("--population", source.population, "--hosts", str(source.hosts), "--seed", str(source.seed))
        self.start("market", "agents", "start", *traders, *self._flow(), "--connect", self.endpoint)
        yield f"market: the traders of the population {source.population}, seed {source.seed}, in {source.hosts} host process{'es' if source.hosts > 1 else ''}"
        yield from self._logged_in(2 + source.hosts)

    def _research(self) -> Steps:
        """After the market has opened: it takes all the processor that the market leaves."""
        self.start("model", "llm", "fetch", "tiny")
        yield from self._settled("model")
        if self.unresearched is not None:
            return
        settings = research.options(self.plan.source, self.plan.output)
        self._after_the_market(
            self.start("researcher", "researcher", "start", *settings, "--output", str(self.plan.research))
        )
        yield "researcher: a language model designs learning algorithms beside all this"

    @staticmethod
    def _after_the_market(one: Child) -> None:
        """A process, and those that it starts, that have the processor when the market does not need it."""
        os.setpriority(os.PRIO_PROCESS, one.process.pid, os.getpriority(os.PRIO_PROCESS, 0) + LATER)

    def _researched(self) -> Steps:
        """Until the researcher has ended, however long it takes: the market is there for what it finds."""
        assert self.watcher is not None
        held = False
        for line in self._settled("researcher"):
            yield line
            late = self.watcher.time_ns >= time_of_day_ns(LATE)
            if late and not held and not self.children["researcher"].exited:
                set_clock(self.endpoint, "", SAME_TIME, run=False)
                held = True
                yield "the clock is held until the researcher has ended"

    def _settled(self, name: str) -> Steps:
        """What one of RESEARCH says, line by line, until it has ended; if it failed, that the demo goes on without."""
        one, told = self.children[name], 0
        while not one.exited:
            yield from (lines := one.output.split("\n")[told:-1])
            told += len(lines)
            self._moment()
            yield None
        if one.process.returncode:
            self.unresearched = one.failure()
            yield f"no researcher from here on, as with --no-researcher: {self.unresearched}"
        else:
            yield from one.output.rstrip().split("\n")[told:]

    def _execute(self, name: str, policy: str, order: DemoOrder) -> None:
        options = (*order.options, "--connect", self.endpoint, "--name", name)
        day = self.plan.source.day
        known = ("--day", str(day)) if day else ()
        told = ("--progress", self.progress(name), *self._flow())
        self.start(
            name, "execute", "--policy", policy, *options, *known, *told, "--report", str(self.plan.output / name)
        )
        self.executions[name] = Progress(Path(self.progress(name)))

    def progress(self, name: str) -> str:
        """The file by which the page follows an execution."""
        return str(self.plan.output / f"{name}.jsonl")

    def _winner(self) -> Steps:
        """The second order, by the policy that the researcher found."""
        from serl.researcher.outer.report import winner

        policy = winner(self.plan.research)
        if policy is None:
            yield "researcher: none of its candidates ended with a score, so there is no policy to execute"
            return
        assert self.watcher is not None
        order, sessions = self.plan.order, self.watcher.sessions
        begin_ns = self._next_minute_ns()
        end_ns = begin_ns + order.duration_ns
        if end_ns > time_of_day_ns(CLOSE):
            yield f"researcher: it is too late in the market's day to execute what it found; the policy is {policy}"
            return
        window = f"{time_of_day_text(begin_ns)}-{time_of_day_text(end_ns)}"
        set_clock(self.endpoint, "", SAME_TIME, run=False)
        self._execute("learnt", str(policy), dataclasses.replace(order, window=window))
        yield f"the clock is held until the policy that was found is there to sell, {window}"
        yield from self._logged_in(sessions + 1)
        set_clock(self.endpoint, "", SAME_TIME, run=True)
        yield from self._ended("learnt")
        self.executed.append("learnt")

    def _next_minute_ns(self) -> int:
        """After midnight: the first whole minute that is LEAD_S away."""
        assert self.watcher is not None
        earliest_s = self.watcher.time_ns // SECOND_NS + LEAD_S
        return -(-earliest_s // 60) * 60 * SECOND_NS

    def _moment(self) -> None:
        """Lets time pass; ProcessFailed if one has ended that should not have."""
        assert self.watcher is not None
        until_s = time.monotonic() + LOOK_S
        while (left_s := until_s - time.monotonic()) > 0:
            self.watcher.look(left_s)
        for one in self.children.values():
            failed = one.process.returncode and one.name not in RESEARCH
            if one.exited and (failed or one.name in ("exchange", "dashboard")):
                raise one.failure()

    def _logged_in(self, count: int) -> Steps:
        assert self.watcher is not None
        while self.watcher.sessions < count:
            self._moment()
            yield None

    def _ended(self, name: str) -> Steps:
        """Until a child has ended: its last words."""
        while not self.children[name].exited:
            self._moment()
            yield None
        yield self.children[name].wait()
