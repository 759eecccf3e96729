"""DEK, low level: after each iteration, tune the model's weights on all scored modules, and serve the tuned model.

Files: the tuner's state and figures for each iteration with updates; `adapter.safetensors` and `experience.jsonl`, from which other runs can start.
"""

import json
import os
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from serl.exchange.atomic_file import atomic_file, write_json
from serl.researcher.llm.eight_bit import served_file
from serl.researcher.llm.models import find
from serl.researcher.llm.served import ServedModel
from serl.researcher.modules.contracts import Form, Kind
from serl.researcher.outer import uniform
from serl.researcher.outer.author import Author
from serl.researcher.outer.config import LowLevel
from serl.researcher.outer.database import Database
from serl.researcher.outer.scored_modules import Recorded, grammar, modules_ahead, recorded_modules, run_of
from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.experience import log_mixture
from serl.researcher.tuning.pool import Pool, Scored

ADAPTER, EXPERIENCE = "adapter.safetensors", "experience.jsonl"
START, IMPORTED = "start.safetensors", "imported.jsonl"
"""Copies of the files that the run was given: the originals may change while the run is stopped."""


class LowLevelTuning:
    """The tuner of a run and its files."""

    def __init__(
        self, config: LowLevel, form: Form, model: str, folder: Path, served: ServedModel, database: Database
    ) -> None:
        import torch

        from serl.researcher.tuning.adapter import start_from
        from serl.researcher.tuning.base import load_base
        from serl.researcher.tuning.memory import require_memory
        from serl.researcher.tuning.tuner import Tuner

        torch.set_num_threads(1)  # candidates train in parallel
        self.config, self._form, self._folder = config, form, folder
        self._served, self._database = served, database
        self._gguf, self._served_file = find(model), served_file(model)
        tuning = settings_of(config, folder)
        require_memory(self._gguf, tuning, form)
        self._tuner = Tuner(load_base(self._gguf), tuning)
        folder.mkdir(parents=True, exist_ok=True)
        self._started_from = (
            start_from(self._tuner, self._kept(config.start_from, START)) if config.start_from else None
        )
        self._imported = self._import_experience()

    def _kept(self, path: Path, name: str) -> Path:
        """The run's copy of a file, created if it does not exist."""
        copy = self._folder / name
        if not copy.exists():
            with atomic_file(copy) as file:
                file.write(path.read_bytes())
        return copy

    def _import_experience(self) -> list[Scored]:
        from serl.researcher.tuning.store import read_experience

        if self.config.experience is None:
            return []
        grammars = {kind.value: grammar(kind, self._form) for kind in Kind}
        return read_experience(self._kept(self.config.experience, IMPORTED), self._tuner.base.sha256, grammars)

    def resume(self, iteration: int, author: Author) -> None:
        """Restore the newest state up to `iteration` and serve it; not every iteration has an update. Without any state, serve the adapter that the
        run starts from."""
        saved = [path for path in states(self._folder) if _number(path) <= iteration]
        if saved:
            self._tuner.resume(saved[-1])
        if saved or self._started_from:
            self._serve(author)

    def learn(self, iteration: int, author: Author) -> dict[str, Any]:
        """Update the weights on the modules scored so far. Returns figures of the updates, or why there was none."""
        import torch

        torch.set_num_threads(self.config.threads or os.cpu_count() or 1)
        try:
            return self._learn(iteration, author)
        finally:
            torch.set_num_threads(1)

    def _learn(self, iteration: int, author: Author) -> dict[str, Any]:
        state = self._folder / f"after-{iteration:05}.safetensors"
        facts_path = state.with_suffix(".json")
        if facts_path.exists():  # the run was killed between the update and the end of the iteration
            self._tuner.resume(state)
            self._serve(author)
            return dict(json.loads(facts_path.read_text()))
        if self._tuner.stopped:
            return {"stopped": self._tuner.stopped}
        rows = self.scored(iteration, author.name)
        if not any(row.fresh for row in rows):
            return {"skipped": "no module of this iteration has tokens"}
        began = time.monotonic()
        try:
            facts = self._update([*self._imported, *rows], iteration)
        except TuningError as error:  # e.g. a gradient that is not finite: the run continues
            facts = {"refused": str(error)}
        if "step" not in facts:
            return facts
        self._tuner.save(state)
        facts |= {"update_s": time.monotonic() - began}
        self._export(rows)
        write_json(facts_path, facts)  # last, so that everything is repeated after a kill in between
        self._prune_states()
        self._serve(author)
        return dict(json.loads(facts_path.read_text()))

    def _update(self, rows: Sequence[Scored], iteration: int) -> dict[str, Any]:
        """Make several updates on minibatches of all modules. Returns the figures of the last update, or why there was none. If one of them is refused
        (TuningError), the weights are those before the first."""
        pool = Pool(rows, self.config.tuning)
        rng = np.random.default_rng([self.config.tuning.seed, iteration])
        done = list[dict[str, Any]]()
        with self._tuner.undone_if_refused():
            while len(done) < self.config.updates_per_iteration and not self._tuner.stopped:
                batch = pool.minibatch(self.config.modules_max, rng)
                if batch.strength == 0.0:
                    break
                done.append(asdict(self._tuner.learn(batch)))
        if not done:
            return {"skipped": "the scores do not differ by more than their noise"}
        fresh = sum(row.fresh for row in rows)
        return done[-1] | {"updates": len(done), "modules": fresh, "pool": len(pool.rows), "noise_bps": pool.noise_bps}

    def scored(self, iteration: int, model: str) -> list[Scored]:
        """All scored modules of the tuned model up to an iteration, with the log-probability of their proposal. Modules proposed since the last
        updates get it from the present policy, so call this before the updates; for earlier modules it was stored then. Modules proposed while the
        candidates of `iteration` trained have no score yet, but their log-probability is stored too."""
        place = self._database, self._tuner.base, self._form, model, iteration
        found, proposals = recorded_modules(*place), self._tuner.proposals
        unknown = [one for one in (*found, *modules_ahead(*place)) if one.id not in proposals]
        log_policy = self._tuner.log_p([one.row.module for one in unknown]).tolist() if unknown else []
        for one, log_p in zip(unknown, log_policy, strict=True):
            proposals[one.id] = self._log_proposal(one, log_p)
        return [replace(one.row, module=replace(one.row.module, log_proposal=proposals[one.id])) for one in found]

    def _log_proposal(self, one: Recorded, log_policy: float) -> float:
        if one.drawable is None or not self.config.uniform_share:
            return log_policy
        return log_mixture(log_policy, uniform.log_p(Kind(one.row.kind), one.drawable), self.config.uniform_share)

    def _serve(self, author: Author) -> None:
        """Export the tuned model, restart the embedded endpoint with it, and point the author to it."""
        from serl.researcher.tuning.export import export_gguf

        tuned = export_gguf(self._tuner, self._served_file, self._folder / "served")
        author.use_endpoint(self._served.restart(tuned.lora, tuned.model))

    def _export(self, rows: Sequence[Scored]) -> None:
        """Write the adapter and the experience that later runs can start from."""
        from serl.researcher.tuning.adapter import save_adapter
        from serl.researcher.tuning.store import write_experience

        facts = {
            "runs": sorted({run_of(self._database), *(row.group.split()[0] for row in self._imported)}), "data": self._database.fact("data"),
            "candidates": len({row.candidate for row in rows}), "modules": len(rows), "started_from": self._started_from,
        }  # fmt: skip
        save_adapter(self._tuner, self._folder / ADAPTER, facts)
        write_experience(self._folder / EXPERIENCE, rows, self._tuner.base.sha256)

    def _prune_states(self) -> None:
        """Keep the two newest states, which are enough to resume."""
        for path in states(self._folder)[:-2]:
            path.unlink()


def settings_of(config: LowLevel, folder: Path) -> TuningConfig:
    """The settings of a run's tuner: those of its saved states, because a run that began with the defaults of an earlier version keeps them."""
    from serl.researcher.tuning.tuner import saved_settings

    saved = states(folder)
    return saved_settings(saved[-1]) if saved else config.tuning


def states(folder: Path) -> list[Path]:
    """Paths of a tuner's saved states, oldest first."""
    return sorted(folder.glob("after-*.safetensors"))


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
