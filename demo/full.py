"""The full demo, each part in its own process: a dashboard, an exchange with its traders, an executor, the researcher.

First a TWAP executes a parent order while the researcher searches for better policies. After the researcher has ended, its best policy executes an
order of the same size later in the same market.
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
from serl.exchange.clock import CURRENT_TIME
from serl.exchange.config import time_of_day_ns, time_of_day_text
from serl.exchange.ports import free_port

HOLD_FROM = "15:00"
"""Market time at which the clock starts to wait for a researcher that has not ended."""
EXECUTIONS = "twap", "learnt"
RESEARCH = "model", "researcher"
"""Child processes whose failure does not end the demo."""
POLL_S = 0.25
RESEARCHER_NICENESS = 19
"""Added niceness of the researcher: a market in lockstep is only as fast as its slowest turn, so the researcher gets what is left."""
LEAD_S = 300
"""Market time before the window of the second order, so that its policy has seen some of the market."""
Steps = Iterator[str | None]
"""Lines to print; None means that there is nothing to do until something happens."""
HOST_FAILED = "error: host "
"""Start of the exchange's line that reports the end of a host of traders."""


@dataclass(frozen=True)
class Plan:
    """What the demo runs. dashboard_port: None without a dashboard."""

    source: Source
    speed: float
    output: Path
    dashboard_port: int | None
    researcher: bool

    @property
    def order(self) -> DemoOrder:
        """The first parent order."""
        return self.source.order

    @property
    def research(self) -> Path:
        """Folder of the researcher's run."""
        return self.output / "researcher"

    @property
    def flow(self) -> Path:
        """Folder in which hosts and executors log order flow by kind of trader."""
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
    """Progress of the executions that have started."""
    executed: list[str] = field(default_factory=list)
    """Names of the finished executions."""
    research_failure: ProcessFailed | None = None
    """Why the researcher failed, if it did."""
    research_ended: bool = False
    """Whether the researcher has ended without an error."""

    def start(self, name: str, *arguments: str) -> Child:
        """Start a child process that lives as long as the scene."""
        self.children[name] = self.stack.enter_context(child(self.plan.output, name, *arguments))
        return self.children[name]

    def run(self) -> Steps:
        """Run the demo up to the end of its last part; the market and the dashboard keep running."""
        self._clear_output()
        yield from self.beside(self._open())
        parts = [self._first_order()]
        if self.plan.researcher:
            parts.append(self._research())
        yield from self.beside(*parts)
        if self.research_ended:
            yield from self.beside(self._execute_best())

    def stay(self) -> Steps:
        """Watch the market and the dashboard until Ctrl-C ends them."""
        while True:
            self._poll()
            yield None

    def beside(self, *parts: Steps) -> Steps:
        """Run parts concurrently. Yields their lines, and None after each polling interval, which begins when all parts are waiting."""
        running = list(parts)
        while running:
            waiting = True
            for part in list(running):
                try:
                    line = next(part)
                except StopIteration:
                    running.remove(part)
                    waiting = False
                    continue
                if line is not None:
                    waiting = False
                    yield line
            if waiting:
                self._poll()
                yield None

    def _open(self) -> Steps:
        """Start everything up to the first order. The dashboard comes first, because there is nothing to see without it."""
        if self.plan.dashboard_port is not None:
            self.start("dashboard", "dashboard", "--connect", self.endpoint, *self._dashboard_options())
        yield from self._exchange()
        self._execute("twap", "twap", self.plan.order)
        yield from self._wait_for_sessions(2 + self.plan.source.hosts)
        if self.plan.source.day is not None:
            self._replay(self.plan.source.day)
            yield f"market: {self.plan.source.day} is replayed"

    def _first_order(self) -> Steps:
        yield from self._wait_for_end("twap")
        self.executed.append("twap")

    def _clear_output(self) -> None:
        """Remove the output of an earlier demo. Folders without such output are not touched."""
        if not (self.plan.output / "exchange.log").exists():
            return
        for name in ("researcher", "flow", *EXECUTIONS):
            shutil.rmtree(self.plan.output / name, ignore_errors=True)
            Path(self.progress(name)).unlink(missing_ok=True)

    def _exchange(self) -> Steps:
        plan = self.plan
        journal = self.stack.enter_context(tempfile.TemporaryDirectory(prefix="serl-demo-"))
        self.start(
            "exchange", "exchange", "start", "--symbols", plan.source.symbols, "--endpoint", self.endpoint, "--journal", journal,
            *self._clock_options(), *self._traders_options(),
        )  # fmt: skip
        yield "starting the exchange and its traders; the first start on a machine compiles them"
        if plan.dashboard_port is not None:
            yield from self._wait_for_line("dashboard", "operator")
        yield from self._wait_for_line("exchange", "  journal", quietly=True)
        self.watcher = Watcher(self.endpoint, plan.order.symbol)
        self.stack.callback(self.watcher.close)
        yield f"exchange of {plan.order.symbol} on {self.endpoint}, {plan.speed:g} x real time{self._traders_text()}"

    def _wait_for_line(self, name: str, prefix: str, *, quietly: bool = False) -> Steps:
        """Wait for a line of a child; yields the lines up to it unless `quietly`. ProcessFailed if the child ends first."""
        while True:
            exited, lines = self.children[name].exited, self.children[name].output.split("\n")[:-1]
            place = next((place for place, line in enumerate(lines) if line.startswith(prefix)), None)
            if place is not None:
                break
            if exited:
                raise self.children[name].failure()
            yield None
        if not quietly:
            yield from lines[: place + 1]

    def _clock_options(self) -> Iterator[str]:
        """A replayer sets the clock itself. With simulated traders the clock runs in lockstep and waits for them and the executor."""
        plan, source = self.plan, self.plan.source
        yield from ("--clock-start", OPEN)
        if source.day is not None:
            yield from ("--clock", f"scaled:{plan.speed:g}", "--hold")
        else:
            yield from ("--clock", f"lockstep:{plan.speed:g}", "--participants", str(source.hosts + 1))

    def _traders_options(self) -> Iterator[str]:
        source = self.plan.source
        if source.population is not None:
            yield from ("--with", source.population, "--hosts", str(source.hosts), "--seed", str(source.seed))
            yield from self._flow_options()

    def _traders_text(self) -> str:
        source = self.plan.source
        return "" if source.population is None else f", with the traders of {source.population}, seed {source.seed}"

    def _dashboard_options(self) -> Iterator[str]:
        """What the dashboard shows besides the exchange. Without a researcher there is no second execution."""
        yield from ("--port", str(self.plan.dashboard_port))
        yield from self._flow_options()
        if self.plan.researcher:
            yield from ("--researcher", str(self.plan.research))
        for name in EXECUTIONS if self.plan.researcher else EXECUTIONS[:1]:
            yield from ("--execution", self.progress(name))

    def _flow_options(self) -> Iterator[str]:
        """The option to log order flow by kind of trader, which does not exist for history."""
        if self.plan.source.day is None:
            yield from ("--flow", str(self.plan.flow))

    def _replay(self, day: Path) -> None:
        pace = ("--speed", f"{self.plan.speed:g}", "--wait-for", "1")
        self.start("market", "replay", str(day), "--connect", self.endpoint, *pace)

    def _research(self) -> Steps:
        """Start the researcher after the market has opened, and follow it to its end. It uses the CPU time that the market leaves."""
        self.start("model", "llm", "fetch", "tiny")
        yield from self._follow_research("model")
        if self.research_failure is not None:
            return
        settings = research.options(self.plan.source, self.plan.output)
        self._lower_priority(
            self.start("researcher", "researcher", "start", *settings, "--output", str(self.plan.research))
        )
        yield "researcher: a language model designs learning algorithms in the background"
        yield from self._wait_for_researcher()
        self.research_ended = self.research_failure is None

    @staticmethod
    def _lower_priority(one: Child) -> None:
        """Lower the priority of a process and its future children, so the market runs first."""
        os.setpriority(os.PRIO_PROCESS, one.process.pid, os.getpriority(os.PRIO_PROCESS, 0) + RESEARCHER_NICENESS)

    def _wait_for_researcher(self) -> Steps:
        """Follow the researcher to its end. The clock is held from HOLD_FROM on, so that the market is still open for the researcher's policy."""
        assert self.watcher is not None
        held = False
        for line in self._follow_research("researcher"):
            yield line
            late = self.watcher.time_ns >= time_of_day_ns(HOLD_FROM)
            if late and not held and not self.children["researcher"].exited:
                set_clock(self.endpoint, "", CURRENT_TIME, run=False)
                held = True
                yield "the clock is held until the researcher has ended"

    def _follow_research(self, name: str) -> Steps:
        """Yield the output of a process of RESEARCH line by line until it has ended. If it fails, the demo continues without it."""
        one, printed = self.children[name], 0
        while not one.exited:
            yield from (lines := one.output.split("\n")[printed:-1])
            printed += len(lines)
            yield None
        if one.process.returncode:
            self.research_failure = one.failure()
            yield f"continuing without the researcher, which failed: {self.research_failure}"
        else:
            yield from one.output.rstrip().split("\n")[printed:]

    def _execute(self, name: str, policy: str, order: DemoOrder) -> None:
        options = (*order.options, "--connect", self.endpoint, "--name", name)
        day = self.plan.source.day
        history = ("--day", str(day)) if day else ()
        output = ("--progress", self.progress(name), *self._flow_options())
        self.start(
            name, "execute", "--policy", policy, *options, *history, *output, "--report", str(self.plan.output / name)
        )
        self.executions[name] = Progress(Path(self.progress(name)))

    def progress(self, name: str) -> str:
        """The file from which the dashboard reads an execution's progress."""
        return str(self.plan.output / f"{name}.jsonl")

    def _execute_best(self) -> Steps:
        """Execute the second order with the researcher's best policy."""
        from serl.researcher.outer.report import winner

        policy = winner(self.plan.research)
        if policy is None:
            yield "researcher: no candidate has a score, so there is no policy to execute"
            return
        assert self.watcher is not None
        order, sessions = self.plan.order, self.watcher.sessions
        begin_ns = self._next_minute_ns()
        end_ns = begin_ns + order.duration_ns
        if end_ns > time_of_day_ns(CLOSE):
            yield f"researcher: it is too late in the market's day to execute the best policy, {policy}"
            return
        window = f"{time_of_day_text(begin_ns)}-{time_of_day_text(end_ns)}"
        set_clock(self.endpoint, "", CURRENT_TIME, run=False)
        self._execute("learnt", str(policy), dataclasses.replace(order, window=window))
        yield f"the clock is held until the best policy has logged in to sell, {window}"
        yield from self._wait_for_sessions(sessions + 1)
        set_clock(self.endpoint, "", CURRENT_TIME, run=True)
        yield from self._wait_for_end("learnt")
        self.executed.append("learnt")

    def _next_minute_ns(self) -> int:
        """The first full minute at least LEAD_S from now, in ns since midnight."""
        assert self.watcher is not None
        earliest_s = self.watcher.time_ns // SECOND_NS + LEAD_S
        return -(-earliest_s // 60) * 60 * SECOND_NS

    def _poll(self) -> None:
        """Wait for POLL_S; ProcessFailed if a required process has ended."""
        until_s = time.monotonic() + POLL_S
        while (left_s := until_s - time.monotonic()) > 0:
            if self.watcher is None:
                time.sleep(left_s)
            else:
                self.watcher.receive(left_s)
        for one in self.children.values():
            failed = one.process.returncode and one.name not in RESEARCH
            if one.exited and (failed or one.name in ("exchange", "dashboard")):
                raise one.failure()
        if HOST_FAILED in self.children["exchange"].output:
            raise ProcessFailed(
                f"the traders of the exchange failed; its output: {self.children['exchange'].output.strip()}"
            )

    def _wait_for_sessions(self, count: int) -> Steps:
        assert self.watcher is not None
        while self.watcher.sessions < count:
            yield None

    def _wait_for_end(self, name: str) -> Steps:
        """Wait until a child has ended; yields its output."""
        while not self.children[name].exited:
            yield None
        yield self.children[name].wait()
