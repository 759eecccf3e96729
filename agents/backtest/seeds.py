"""One backtest for each of several seeds, in parallel processes."""

import multiprocessing
import signal
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from serl.agents.backtest.errors import BacktestError
from serl.agents.backtest.forecasts import Forecasting
from serl.agents.backtest.load import Loaded, load_strategy, user_code
from serl.agents.backtest.result import Result
from serl.agents.backtest.run import Progress, backtest
from serl.agents.execution.answering.model import NONE
from serl.agents.realism.days import load_day
from serl.agents.signals.forecaster_file import read_forecaster
from serl.agents.traders.population import check_population
from serl.cluster import LOCAL, on_ray
from serl.exchange.latency import Delays
from serl.garbage import collect_rarely


@dataclass(frozen=True)
class Job:
    """A backtest of a strategy file, in a form that can be sent to another process."""

    file: Path
    strategy: str
    population: dict[str, Any] | None
    """Settings of the population; None for a day."""
    day: Path | None
    seed: int
    window_ns: tuple[int, int] | None
    delays: Delays | None
    latency_us: float
    answers: str = NONE
    """See `backtest`."""
    forecaster: Path | None = None
    """File of the forecaster whose forecasts the strategy sees."""

    def run(self, loaded: Loaded | None = None, on_progress: Progress = lambda time_ns: None) -> Result:
        """Runs the backtest in this process; loads the file unless `loaded` is given. Raises StrategyError, with the line, if the strategy raises."""
        found = (loaded or load_strategy(self.file, self.strategy)).found
        population = None if self.population is None else check_population(self.population, "population")
        day = None if self.day is None else load_day(self.day)
        forecasting = None
        if self.forecaster is not None:
            forecasting = Forecasting(read_forecaster(self.forecaster), self.forecaster.name)
        with user_code(self.file, "a run"):
            return backtest(
                found, population=population, day=day, seed=self.seed, window_ns=self.window_ns, delays=self.delays,
                latency_us=self.latency_us, answers=self.answers, forecasting=forecasting, on_progress=on_progress,
            )  # fmt: skip


def run_jobs(jobs: Sequence[Job], workers: int, on: str = LOCAL) -> Iterator[Result]:
    """Yields the results as they are ready. After an error or an interruption, ends the processes, or tasks of a cluster, at once."""
    if on == LOCAL:
        yield from _run_here(jobs, workers)
    else:
        yield from (result for _, result in on_ray({job.seed: job.run for job in jobs}, on))


def _run_here(jobs: Sequence[Job], workers: int) -> Iterator[Result]:
    context = multiprocessing.get_context("spawn")
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(min(workers, len(jobs)), context, _prepare)
    try:
        for future in as_completed([pool.submit(job.run) for job in jobs]):
            yield future.result()
    except BrokenProcessPool:
        raise BacktestError("expected every process to finish, got one that was killed; use fewer --workers") from None
    except BaseException:
        for process in set(multiprocessing.active_children()) - before:
            process.terminate()
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _prepare() -> None:
    """Ignores Ctrl-C, which reaches every process of a terminal: the parent ends the others."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    collect_rarely()
