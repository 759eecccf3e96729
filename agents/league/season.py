"""A season of a league: its players and learners, and its matches, which are stored as they are played."""

import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import Field

from serl.agents.execution.environment.vector import ACTIONS
from serl.agents.execution.policies.choose import make_policy
from serl.agents.execution.policies.policy import Policy
from serl.agents.league.config import LeagueConfig
from serl.agents.league.league import Cell, League, pooled
from serl.agents.league.players import EXECUTOR, MAKER, LearntMaker, learnt_name, self_play
from serl.agents.learning.policy import Policy as LearntPolicy
from serl.agents.learning.policy import load_policy
from serl.agents.learning.settings import LearningSettings
from serl.agents.learning.sources import shares_time
from serl.agents.making.makers import Maker, MarketParameters, make_maker
from serl.agents.pages.origin import versions
from serl.agents.traders.population import load_population
from serl.agents.traders.simulate import fingerprint
from serl.exchange.errors import ConfigError
from serl.result_file import ResultFile

FILE = "matches.jsonl"
TRAINING_DAYS = (0, 1, 2)
"""Days on which closed-form makers measure the market."""
RULES = -1
"""Replaces the training seed in matches of rules."""
EXECUTORS = ("twap", "pov", "ac", "aggressive", "passive", "patience")
"""Rules that need no data."""
Cells = dict[tuple[str, str], Cell]
"""Cells by the names of executor and maker."""
Match = tuple[int, Cell]
"""(seed of its learners or RULES, cell)."""


class SeasonConfig(LearningSettings):
    """Settings: the players of a league, and how much they play and learn."""

    league: LeagueConfig = LeagueConfig()
    executors: tuple[str, ...] = Field(("twap", "passive", "patience"), min_length=1)
    makers: tuple[str, ...] = Field(("symmetric:1", "avellaneda-stoikov:0.01"), min_length=1)
    windows: int = Field(256, ge=1, description="of a match")
    seed: int = Field(1, ge=0, description="of the windows")
    rounds: int = Field(2, ge=0, description="of self-play; 0: nobody learns")
    seeds: int = Field(3, ge=1, description="with which learners are trained")
    executor_steps: int = Field(60_000, ge=1, description="decisions of a learning executor in a round")
    maker_steps: int = Field(300_000, ge=1, description="decisions of a learning maker in a round")


class Season:
    """A season in a folder. Attributes: played: the matches so far."""

    def __init__(self, config: SeasonConfig, folder: Path, *, resume: bool) -> None:
        """Raises the errors of ResultFile, and ConfigError for unknown players, players with the same name, or a market that a league cannot use."""
        self.config, self.folder = config, folder
        self.executors: list[Policy] = [_executor(text) for text in config.executors]
        for policy in self.executors:
            _check_trained(policy, config.league)
        self.makers: list[Maker] = [make_maker(text, lambda: self._parameters) for text in config.makers]
        self._learners = [learnt_name(number) for number in range(1, config.rounds + 1)]
        self.executor_names = _distinct("executor", [one.name for one in self.executors], self._learners)
        self.maker_names = _distinct("maker", [one.name for one in self.makers], self._learners)
        settings = {
            "versions": versions(), "season": config.model_dump(mode="json"), "population": self.population,
            "files": {text: sha256(Path(text).read_bytes()).hexdigest() for text in config.executors if text not in EXECUTORS},
        }  # fmt: skip
        if not resume and not (folder / FILE).exists():
            # checked first: an error must not leave a folder behind, which the next command would refuse
            _ = self._league
        self._file = ResultFile(folder / FILE, settings, _from_json, resume=resume)
        self.played = [one for one in self._file.results if not isinstance(one, str)]
        self._learnt = {one for one in self._file.results if isinstance(one, str)}

    @cached_property
    def population(self) -> str:
        """The fingerprint of the market's traders."""
        return fingerprint(load_population(self.config.league.population))

    @cached_property
    def _league(self) -> League:
        return League(self.config.league)

    @cached_property
    def _parameters(self) -> MarketParameters:
        return MarketParameters.measure(self.config.league.population, TRAINING_DAYS)

    @property
    def parts(self) -> int:
        """Total number of matches and trainings."""
        rules = len(self.executors) * len(self.makers)
        return rules + self.config.seeds * (self._matches_of_learners + 2 * self.config.rounds)

    @property
    def _matches_of_learners(self) -> int:
        """Number of matches of the learners of one seed."""
        return len(self.executor_names) * len(self.maker_names) - len(self.executors) * len(self.makers)

    @property
    def parts_done(self) -> int:
        """Number of finished matches and trainings."""
        return len(self.played) + len(self._learnt)

    @property
    def cells(self) -> Cells:
        """The matches so far; those of learners are averaged over their seeds, window by window."""
        found: dict[tuple[str, str], list[Cell]] = {}
        for _, cell in self.played:
            found.setdefault((cell.executor, cell.maker), []).append(cell)
        return {names: pooled(cells) for names, cells in found.items()}

    def play(self, on_part: Callable[[], None] = lambda: None) -> None:
        """Plays the missing matches and trains the missing learners. on_part: called after each match and each training."""
        league = self._league
        self._meet(league, RULES, itertools.product(self.executors, self.makers), on_part)
        for seed in range(self.config.seeds):
            if sum(of == seed for of, _ in self.played) == self._matches_of_learners:
                continue
            policies, quoting = self._learn(league, seed, on_part)
            pairs = [
                (policy, maker)
                for policy in (*self.executors, *policies)
                for maker in (*self.makers, *quoting)
                if policy.name in self._learners or maker.name in self._learners
            ]
            self._meet(league, seed, pairs, on_part)

    def _meet(
        self, league: League, seed: int, pairs: Iterable[tuple[Policy, Maker]], on_part: Callable[[], None]
    ) -> None:
        played = {(of, cell.executor, cell.maker) for of, cell in self.played}
        for policy, maker in pairs:
            if (seed, policy.name, maker.name) in played:
                continue
            cell = league.meet(policy, maker, self.config.windows, self.config.seed)
            self._file.append(_to_json(seed, cell))
            self.played.append((seed, cell))
            on_part()

    def _learn(
        self, league: League, seed: int, on_part: Callable[[], None]
    ) -> tuple[Sequence[LearntPolicy], Sequence[LearntMaker]]:
        """The learners of a seed; those trained before are loaded from their files."""
        config = self.config

        def keep(name: str, train: Callable[[], LearntPolicy]) -> LearntPolicy:
            key = f"seed-{seed}/{name}"
            path = self.folder / f"{key}.safetensors"
            if key in self._learnt:
                known = load_policy(path)
                assert isinstance(known, LearntPolicy)
                return known
            learnt = train()
            path.parent.mkdir(exist_ok=True)
            learnt.save(path)
            self._file.append({"learnt": key})
            self._learnt.add(key)
            on_part()
            return learnt

        executor = EXECUTOR.model_copy(update={"steps": config.executor_steps, "seed": seed})
        maker = MAKER.model_copy(update={"steps": config.maker_steps, "seed": seed})
        return self_play(league, self.executors, self.makers, config.rounds, executor, maker, keep)

    def close(self) -> None:
        """Closes the file and the market."""
        self._file.close()
        if "_league" in vars(self):
            self._league.close()


def _executor(text: str) -> Policy:
    if text not in EXECUTORS and not Path(text).exists():
        raise ConfigError(
            f"executor: expected one of {', '.join(EXECUTORS)}, or the file of a trained policy, got {text!r}"
        )
    return make_policy(text)


def _check_trained(policy: Policy, league: LeagueConfig) -> None:
    """Raises ConfigError for a policy file that cannot work orders in a league, or that was trained on the days on which players meet."""
    file: Any = policy
    interface = policy.interface
    if interface is None:
        return
    if interface.actions not in ACTIONS or interface.horizons_s:
        what = "forecasts, which a league does not have" if interface.horizons_s else f"actions {interface.actions}"
        raise ConfigError(
            f"executor: expected a policy that works orders without forecasts, got {policy.name}, with {what}; give another"
        )
    source = league.source("test")
    if any(shares_time(source, "test", trained) for trained in file.metadata.get("data", [])):
        raise ConfigError(
            f"executor: expected a policy that was not trained on the test days, on which players meet, got {policy.name}, which was; train another"
        )


def _distinct(side: str, rules: list[str], learners: list[str]) -> list[str]:
    """The names of all players of a side. Raises ConfigError if two are equal."""
    names = [*rules, *learners]
    twice = [name for number, name in enumerate(names) if name in names[:number]]
    if twice:
        raise ConfigError(f"{side}: expected players with different names, got two of {twice[0]!r}; leave one out")
    return names


def _to_json(seed: int, cell: Cell) -> dict[str, Any]:
    advantage = [float(value) if math.isfinite(value) else None for value in cell.pa_bps]
    return {
        "seed": seed, "executor": cell.executor, "maker": cell.maker, "pa_bps": advantage,
        "profit_ticks": [float(value) for value in cell.profit_ticks], "days": [int(day) for day in cell.days],
    }  # fmt: skip


def _from_json(row: dict[str, Any]) -> Match | str:
    """A match, or the name of a player that has been trained."""
    if "learnt" in row:
        return str(row["learnt"])
    advantage = np.array([np.nan if value is None else value for value in row["pa_bps"]])
    return row["seed"], Cell(
        row["executor"], row["maker"], advantage, np.array(row["profit_ticks"]), np.array(row["days"])
    )
