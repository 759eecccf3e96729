"""LLM traders, forecasts, market making and Ray.

- minds_decisions_per_s: MINDS minds of `two-stocks-week` with the embedded model `tiny`, in lockstep, two decisions each. The start of the model is not
  counted.
- tokens_per_decision: tokens of prompts and answers.
- signal_us: processor time of a forecast by the slowest model and of the 100 ms of the market before it, where the market is a LOBSTER day.
- market_making_steps_per_s: as in `making`, target 20,000.
- ray_vs_local: seconds of four trainings in bars on two workers of this machine, divided by those of the same trainings as Ray tasks.
- one_part, local_parts, ray_parts: PPO's environments (128 of `small`, four days) in one part, in two on this machine, and as two actors; medians of
  three turns of 20 updates.
"""

import asyncio
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import ray

from benchmarks.forecasts import write_forecaster
from benchmarks.making import steps_per_s
from benchmarks.racing import SEEDS, bars_contenders, timed
from benchmarks.replay import FOLDER, SAMPLES
from serl.agents.learning.baseline_training import build_training
from serl.agents.learning.training import Training, environments, load_config
from serl.agents.realism.days import parse_window
from serl.agents.signals.features import has_spread
from serl.agents.signals.forecaster import ATTENTION
from serl.agents.signals.forecaster_file import read_forecaster
from serl.agents.signals.grid import build_grid
from serl.agents.signals.live import LiveForecaster, Observation
from serl.history.importing import import_day
from serl.minds.config import MindsConfig, load_minds
from serl.minds.models import model_client
from serl.minds.run import RunOptions, run_minds

MINDS, DECISIONS = 16, 2
PARTS, UPDATES, ROUNDS = 2, 20, 3
SIGNAL_HOURS = "10:00-10:10"


def decisions_per_s(folder: Path, minds: int = MINDS) -> dict[str, float]:
    """Of an exchange of this machine that waits for the minds."""
    from tests.server_fixture import start_exchange

    config, place = shortened(minds)
    with (
        start_exchange(symbols=",".join(config.symbols), clock="lockstep") as exchange,
        model_client(config, folder / "calls.jsonl", offline=False) as model,
    ):
        options = RunOptions(exchange.endpoint, say=lambda text: None)
        began = time.perf_counter()
        total = asyncio.run(run_minds(config, place, model, options))["all"]
        seconds = time.perf_counter() - began
    assert total["decisions"] == minds * DECISIONS, total
    tokens = total["prompt_tokens"] + total["completion_tokens"]
    return {"minds_decisions_per_s": total["decisions"] / seconds, "tokens_per_decision": tokens / total["decisions"]}


def shortened(minds: int) -> tuple[MindsConfig, Path]:
    """The settings, for a few decisions of a few minds, and their folder."""
    config, place = load_minds("two-stocks-week")
    count = minds // len(config.personas)
    personas = tuple(persona.model_copy(update={"count": count, "every": 1}) for persona in config.personas)
    duration_s = DECISIONS * config.interval_s
    changes = {"personas": personas, "hours": None, "days": 1, "duration_s": duration_s, "events": None}
    return config.model_copy(update=changes), place


def signal_us(folder: Path) -> float:
    """Of three horizons by the slowest model, over the hours of SIGNAL_HOURS."""
    day = import_day(FOLDER / SAMPLES["goog"])
    write_forecaster(day, folder / "goog.signals")
    live, grid = LiveForecaster(read_forecaster(folder / "goog.signals"), ATTENTION, "benchmark"), build_grid(day)
    first_ns, last_ns = parse_window(SIGNAL_HOURS)
    for place in range(len(grid.time_ns)):
        if not first_ns <= grid.time_ns[place] < last_ns:
            continue
        seen = Observation(
            int(grid.time_ns[place]), grid.ticks[place], grid.lots[place], int(grid.buys[place]), int(grid.sells[place]), True
        )  # fmt: skip
        inputs = live.observe(seen)
        if inputs is not None and has_spread(seen.ticks[None])[0]:
            live.forecast("GOOG", seen, inputs)
    return 1e6 * live.seconds / live.made


def ray_vs_local(folder: Path) -> dict[str, float]:
    """Both sides one after the other."""
    seconds = {on: timed(bars_contenders(folder / on, on), SEEDS) for on in ("local", "ray")}
    ray.shutdown()
    return {f"{on}_s": value for on, value in seconds.items()} | {"ray_vs_local": seconds["local"] / seconds["ray"]}


def parts_steps_per_s(folder: Path) -> dict[str, float]:
    """PPO's environments in one part, in PARTS here, and in as many actors of a cluster: medians of ROUNDS turns, all of them by turns."""
    found: dict[str, list[float]] = {name: [] for name in ("one_part", "local_parts", "ray_parts")}
    for _ in range(ROUNDS):
        for name, parts, on in (("one_part", 1, "local"), ("local_parts", PARTS, "local"), ("ray_parts", PARTS, "ray")):
            found[name].append(_training_steps_per_s(folder, parts, on))
    ray.shutdown()
    return {f"{name}_steps_per_s": statistics.median(values) for name, values in found.items()}


def _training_steps_per_s(folder: Path, parts: int, on: str) -> float:
    """Of UPDATES updates, after one that builds the environments."""
    shipped = load_config(Path("dynamic"))
    market = shipped.market.model_copy(update={"simulated_days": 4, "environments": 128, "population": "small"})
    settings = shipped.model_copy(
        update={"market": market, "ppo": shipped.ppo.model_copy(update={"rollout_parts": parts})}
    )
    envs, metadata = environments(settings)
    training = build_training(settings, envs, folder, metadata, on)
    assert isinstance(training, Training)
    learner = training.learner
    learner.reset()
    learner.update()
    began_s, steps = time.perf_counter(), learner.steps
    for _ in range(UPDATES):
        learner.update()
    return (learner.steps - steps) / (time.perf_counter() - began_s)


def run() -> dict[str, Any]:
    """All figures; needs the extras `researcher` and `ray`, and `serl llm fetch tiny`."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for on in ("local", "ray"):
            (folder / on).mkdir()
        found = decisions_per_s(folder)
        signals = {"signal_us": signal_us(folder)} if (FOLDER / SAMPLES["goog"]).exists() else {}
        making = {"market_making_steps_per_s": steps_per_s()}
        return found | signals | making | ray_vs_local(folder) | parts_steps_per_s(folder)
