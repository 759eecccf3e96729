"""`python -m benchmarks soak --hours 2 --json FILE`: an exchange for hours at 30 % of its capacity, 200 sessions, restarts, kills, pauses and the end of a day.

`serl exchange start` with a journal (retention, compression), a dashboard, a metrics process and these clients: traders (compiled; orders, replacements, cancels,
logouts), sessions that hit their rate limit, clients of the library that follow L2 and L3 books, query and trade, one whose latency is measured, a session that sends
without reading, a subscriber that never reads. First the traders send what the exchange takes, with up to 64 unanswered commands each, for `--capacity-s` seconds; then
`--share` of that. Exchange and clients share the processors that this process may use.

Checked: after every login WELCOME continues with the last acknowledged command and the last report, and the reports of everything the exchange has arrive; no report
is missing; after every start all sessions come back, a replay of the journal has the exchange's state hash, followed books equal queried ones, `serl journal
verify` finds no damage; nothing ends unexpectedly; memory grows by at most 1 % an hour, descriptors, threads and journal stay (soak_verdict.py). Exit status 1 otherwise.
Beside FILE: a picture, every sample and the logs. Ctrl-C ends early and writes what there is.
"""

import argparse
import json
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

from benchmarks.endings import one_line_endings
from benchmarks.soak_clients import Clients, limited_names
from benchmarks.soak_exchange import Broken, ServedExchange, write_config
from benchmarks.soak_report import draw, growth_json, journal_growth, lives, load_kept, tables
from benchmarks.soak_samples import Sampler, process_sample
from benchmarks.soak_traders import HOLD, RATE, REST, compile_traders
from serl.exchange.errors import ConfigError

PLAN = (
    (0.04, "pause exchange"), (0.07, "pause traders"), (0.12, "stop"), (0.20, "kill"),
    (0.21, "pause exchange"), (0.22, "pause traders"), (0.23, "kill traders"), (0.24, "end of day"), (0.26, "long pause"),
    (0.35, "pause exchange"), (0.42, "pause traders"), (0.50, "end of day"), (0.58, "kill traders"), (0.65, "long pause"),
    (0.80, "kill"), (0.90, "stop"),
)  # fmt: skip
"""What happens at which share of the time. The last process of the exchange but two lives longest, and has the first of every kind of event in its warm-up: what an event
loads or allocates once is no growth."""
PAUSE_S, TRADERS_PAUSE_S, LONG_PAUSE_S, PAUSE_SHARE = 10.0, 20.0, 40.0, 0.01
"""Lengths of pauses, the longest beyond `silence_s`; in a short soak at most this share of its time."""
BACK_S, RAMP_S, ATTEMPT_PER_S = 120.0, 2.0, 1e6
BACK_SHARE = 0.85
"""Of the sessions are back after a fault under load: a tenth of the traders may have logged out by themselves."""
JOURNAL_MB_MIN, FILES_IN_WORK = 300, 8
"""Retention at least, reached before the longest life begins: until then memory grows with the journal's index; files that may stand beside what it counts until the next snapshot: those in work, and two snapshots' distance."""
AWAY_S, ROW_PAIR_BYTES = 100.0, 160
"""For so long reports must stay, twice the longest pause; a command and its event."""


class Soak:
    """One run."""

    def __init__(self, options: argparse.Namespace, folder: Path, console: Console) -> None:
        self._options, self._folder, self._console = options, folder, console
        self.seconds = options.hours * 3600
        self.events: list[dict[str, Any]] = []
        self.broken: list[str] = []
        self.figures: dict[str, float] = {}
        self.exchange = ServedExchange(folder)
        self._began_s = time.monotonic()
        self.journal_mb = float(JOURNAL_MB_MIN)
        self._write_config()
        try:
            self.exchange.start()
            self.clients = Clients(self.exchange.endpoint, folder, options.sessions, options.symbols, options.processes)
        except BaseException:  # Ctrl-C while it compiles: unlike the clients, it would outlive this process
            if self.exchange.pid:
                self.exchange.kill()
            raise
        self.sampler = Sampler(self.exchange, self.clients, folder / "samples.jsonl", options.sample_s, self._began_s)
        self.sampler.start()

    def run(self) -> None:
        """Until the time is over. Raises Broken, KeyboardInterrupt."""
        self._wait_for_sessions()
        rate = self._options.rate or self._measure_capacity()
        self.figures["load_per_s"] = rate
        self._keep_reports(rate)
        self.clients.control[RATE] = rate / self.clients.plain_sessions
        self.clients.control[HOLD] = 0.0
        self._note("load", f"{rate:,.0f} commands a second")
        for share, name in PLAN:
            self._wait(share * self.seconds)
            self._event(name)
        self._wait(self.seconds)
        self._check_state("end")
        self.exchange.stop()
        self.exchange.verify()

    def _write_config(self) -> None:
        options, elapsed_s = self._options, time.monotonic() - self._began_s
        closings = [share * self.seconds - elapsed_s for share, name in PLAN if name == "end of day"]
        write_config(
            self.exchange.config, options.symbols, limited_names(options.sessions), closings, options.segment_rows, f"{self.journal_mb:.0f} MB"
        )  # fmt: skip

    def _keep_reports(self, rate: float) -> None:
        """Starts the exchange again with room for what clients may miss while they are away."""
        needed_mb = AWAY_S * rate * ROW_PAIR_BYTES / 1e6
        if needed_mb > self.journal_mb:
            self.journal_mb = needed_mb
            self._write_config()
            self._note("stop", f"for a journal of {needed_mb:,.0f} MB; {self._restart(self.exchange.stop)}")

    def _wait(self, until_s: float) -> None:
        while (left_s := until_s - (time.monotonic() - self._began_s)) > 0:
            time.sleep(min(left_s, 0.5))
            self._check_processes()

    def _check_processes(self) -> None:
        if not self.exchange.pid:
            assert self.exchange.process is not None
            raise Broken(f"the exchange ended with status {self.exchange.process.returncode}")
        if ended := self.clients.ended():
            raise Broken(f"{', '.join(ended)} ended")

    def _note(self, name: str, text: str) -> None:
        self.events.append({"time_s": time.monotonic() - self._began_s, "name": name, "text": text})
        self._console.print(f"{self.events[-1]['time_s'] / 60:6.1f} min  {name}: {text}")

    def _event(self, name: str) -> None:
        works: dict[str, Callable[[], str]] = {
            "pause exchange": lambda: self._pause(self.exchange.send_signal, PAUSE_S),
            "long pause": lambda: self._pause(self.exchange.send_signal, LONG_PAUSE_S),
            "pause traders": lambda: self._pause(self.clients.traders[0].send_signal, TRADERS_PAUSE_S),
            "kill traders": self._kill_traders,
            "end of day": self._end_day,
            "stop": lambda: self._restart(self.exchange.stop),
            "kill": lambda: self._restart(self.exchange.kill),
        }
        began = time.monotonic() - self._began_s
        text = works[name]()
        self._note(name, text)
        self.events[-1]["time_s"] = began

    def _pause(self, send_signal: Callable[[signal.Signals], None], length_s: float) -> str:
        length_s = min(length_s, PAUSE_SHARE * self.seconds)
        send_signal(signal.SIGSTOP)
        time.sleep(length_s)
        send_signal(signal.SIGCONT)
        return f"{length_s:g} s; {self._wait_for_most()}"

    def _kill_traders(self) -> str:
        self.clients.traders[-1].replace()
        return self._wait_for_most()

    def _end_day(self) -> str:
        self.exchange.end_day()
        return "the calendar closes each symbol for some seconds, an operator ends the day"

    def _restart(self, end: Callable[[], None]) -> str:
        end()  # while everybody trades
        self.clients.control[HOLD] = 1.0
        self.exchange.verify()
        began = time.monotonic()
        self.exchange.start()
        started_s = time.monotonic() - began
        text = self._check_state(f"start {self.exchange.starts}")
        self.clients.control[HOLD] = 0.0
        return f"started in {started_s:.1f} s; {text}"

    def _check_state(self, name: str) -> str:
        """Everybody comes back, holds, the journal gives the same market, and the followed books are the queried ones."""
        self.clients.control[HOLD] = 1.0
        back_s = self._wait_for_sessions()
        copy = self._folder / "copy"
        sequence, digest = self.exchange.copy_at_rest(copy)
        self.clients.control[REST] = 1.0
        compared = self._books() + self.clients.watchers
        self._console.log(f"{name}: replay of the journal up to command {sequence:,}")
        text = self.exchange.check_replay(copy, sequence, digest)
        began = time.monotonic()
        while self._books() < compared:
            self._check_processes()
            if time.monotonic() - began > BACK_S:
                raise Broken(f"{compared - self._books()} watchers have not compared their books after {BACK_S:g} s")
            time.sleep(0.1)
        self.clients.control[REST] = 0.0
        return f"all sessions back after {back_s:.1f} s; {text}"

    def _books(self) -> int:
        """Comparisons of followed books so far."""
        counts = self.clients.counts()
        return counts.get("books compared", 0) + counts.get("books differ", 0)

    def _wait_for_sessions(self) -> float:
        """Seconds until all sessions are logged in; outside of a hold, in which nobody logs out, BACK_SHARE of them."""
        began, hold = time.monotonic(), self.clients.control[HOLD]
        wanted = self._options.sessions if hold else BACK_SHARE * self._options.sessions
        while self.clients.live() < wanted:
            self._check_processes()
            if time.monotonic() - began > BACK_S:
                raise Broken(f"{self.clients.live()} of {self._options.sessions} sessions are back after {BACK_S:g} s")
            time.sleep(0.1)
        return time.monotonic() - began

    def _wait_for_most(self) -> str:
        return f"{BACK_SHARE:.0%} of the sessions were back after {self._wait_for_sessions():.1f} s"

    def _measure_capacity(self) -> float:
        self.clients.control[RATE], self.clients.control[HOLD] = ATTEMPT_PER_S, 0.0
        time.sleep(RAMP_S)
        first, began, worked = self._acknowledged(), time.monotonic(), self._worked_s()
        self._wait(began - self._began_s + self._options.capacity_s)
        count, elapsed = self._acknowledged() - first, time.monotonic() - began
        self.figures["capacity_per_s"] = count / elapsed
        self.figures["capacity_processor_share"] = (self._worked_s() - worked) / elapsed
        return float(self._options.share * count / elapsed)

    def _acknowledged(self) -> int:
        return self.clients.counts()["acknowledged"]

    def _worked_s(self) -> float:
        return process_sample(self.exchange.pid)["processor_s"]

    def close(self) -> None:
        """Ends everything that runs."""
        self.sampler.stop()
        self.clients.close()
        if self.exchange.pid:
            self.exchange.kill()


def main(arguments: list[str] | None = None) -> None:
    """Runs a soak. Exits with 1 if a promise does not hold."""
    options = _options(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _interrupt)  # also where the shell ignores SIGINT for what runs in the background
    console = Console(width=150)
    with one_line_endings("nothing was measured"):
        folder = new_folder(options.json)
        compile_traders()
        soak, ended = Soak(options, folder, console), "complete"
    columns = (TextColumn("{task.description}"), BarColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:
        task = progress.add_task("starting", total=soak.seconds)
        soak.sampler.on_sample = lambda sample: progress.update(
            task, completed=sample["time_s"],
            description=f"{sample['live']} sessions, {sample['commands_per_s']:,.0f}/s, {sample['exchange'].get('memory_mb', 0):,.0f} MB",
        )  # fmt: skip
        try:
            soak.run()
        except KeyboardInterrupt:
            ended = "interrupted"
        except Broken as error:
            ended = "broken"
            soak.broken.append(str(error))
        finally:
            soak.close()
    sys.exit(_finish(soak, options, folder, ended, console))


def new_folder(file: Path) -> Path:
    """Creates the folder of a result: its name without the suffix. ConfigError if there is one, or if the file has no suffix, because it could not be
    written at the end where its folder is."""
    folder = file.with_suffix("")
    if folder == file:
        raise ConfigError(f"--json: expected a file with a suffix, like {file}.json, got {file}; add one")
    if folder.exists():
        raise ConfigError(f"{folder}: expected no results, got some; choose another --json")
    folder.mkdir(parents=True)
    return folder


def _interrupt(_number: int, _frame: object) -> None:
    raise KeyboardInterrupt


def _finish(soak: Soak, options: argparse.Namespace, folder: Path, ended: str, console: Console) -> int:
    """Judges, writes and prints; the exit status."""
    samples, counts, found = soak.sampler.samples, soak.clients.counts(), lives(soak.sampler.samples)
    segment_mb = options.segment_rows * (64 + 96) / 1e6
    if options.growth:
        soak.broken += [text for one in found for text in one.broken()]
    soak.broken += journal_growth(samples, soak.journal_mb + FILES_IN_WORK * segment_mb)
    if ended == "complete":
        soak.broken += load_kept(samples, soak.figures["load_per_s"])
    for name in ("lost", "gaps", "unexpected", "books differ"):
        if counts.get(name):
            soak.broken.append(f"{counts[name]} {name}")
    figures = soak.figures | {
        "hours": samples[-1]["time_s"] / 3600 if samples else 0.0, "starts": soak.exchange.starts, **dict(sorted(counts.items()))
    }  # fmt: skip
    result = {
        "ended": ended, "broken": soak.broken, "notes": soak.clients.notes[:100], "options": {name: str(value) for name, value in vars(options).items()},
        "figures": figures, "growth": growth_json(found), "events": soak.events,
    }  # fmt: skip
    options.json.write_text(json.dumps(result, indent=1))
    draw(folder / "soak.svg", samples, soak.events)
    for table in tables(result, found):
        console.print(table)
    for text in [*soak.clients.notes[:10], *soak.broken]:
        console.print(f"[red]{text}")
    console.print(
        f"{ended}, {'NOT all promises hold' if soak.broken else 'all promises hold'}: {options.json}, {folder}/soak.svg"
    )
    return int(bool(soak.broken))


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks soak", description=__doc__)
    parser.add_argument("--hours", type=float, default=2.0)
    parser.add_argument(
        "--json", type=Path, required=True, help="result; a folder of its name gets picture, samples and logs"
    )
    parser.add_argument("--sessions", type=int, default=200)
    parser.add_argument("--processes", type=int, default=3, help="of traders")
    parser.add_argument("--symbols", type=int, default=8)
    parser.add_argument("--share", type=float, default=0.3, help="of the capacity")
    parser.add_argument("--rate", type=float, default=0.0, help="commands a second instead of a share of the capacity")
    parser.add_argument("--capacity-s", type=float, default=10.0)
    parser.add_argument("--sample-s", type=float, default=5.0)
    parser.add_argument(
        "--no-growth", dest="growth", action="store_false", help="do not judge memory and descriptors: a run of minutes"
    )
    parser.add_argument("--segment-rows", type=int, default=1 << 18)
    return parser.parse_args(arguments)


if __name__ == "__main__":
    main()
