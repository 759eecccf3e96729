"""DEK, low level: after each iteration, tune the model's weights on the modules' tokens and performance, and serve the tuned model."""

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from serl.exchange.atomic_file import write_json
from serl.researcher.llm.answers import Answer, Token
from serl.researcher.llm.models import find
from serl.researcher.llm.requests import grammar_of
from serl.researcher.llm.served import ServedModel
from serl.researcher.modules.contracts import Form, Kind, form_of
from serl.researcher.modules.specs import json_schema
from serl.researcher.outer import uniform
from serl.researcher.outer.author import Author
from serl.researcher.outer.config import LowLevel
from serl.researcher.outer.database import Database
from serl.researcher.tuning.errors import TuningError
from serl.researcher.tuning.experience import Experience, experience_of, log_mixture


class LowLevelTuning:
    """The tuner of a run and its files: a state per update, and the exported model that is served."""

    def __init__(
        self, config: LowLevel, form: Form, model: str, folder: Path, served: ServedModel, database: Database
    ) -> None:
        import torch

        from serl.researcher.tuning.base import load_base
        from serl.researcher.tuning.tuner import Tuner

        torch.set_num_threads(config.threads)
        self.config, self._form, self._folder = config, form, folder
        self._served, self._database = served, database
        self._gguf = find(model)
        self._tuner = Tuner(load_base(self._gguf), config.tuning)
        folder.mkdir(parents=True, exist_ok=True)

    def resume(self, iteration: int, author: Author) -> None:
        """Restore the newest state up to `iteration` and serve it. Not every iteration has an update."""
        saved = [path for path in states(self._folder) if _number(path) <= iteration]
        if saved:
            self._tuner.resume(saved[-1])
            self._serve(author)

    def learn(self, iteration: int, author: Author) -> dict[str, Any]:
        """Update the weights once on the modules of an iteration. Returns figures of the update, or why there was none."""
        state = self._folder / f"after-{iteration:05}.safetensors"
        facts_path = state.with_suffix(".json")
        if facts_path.exists():  # the run was killed between the update and the end of the iteration
            self._tuner.resume(state)
            self._serve(author)
            return dict(json.loads(facts_path.read_text()))
        if self._tuner.stopped:
            return {"stopped": self._tuner.stopped}
        rows = self.experiences(iteration)
        if not rows:
            return {"skipped": "no module of this iteration has tokens"}
        began = time.monotonic()
        try:
            update = self._tuner.update(rows)
        except (
            TuningError
        ) as error:  # e.g. a gradient that is not finite: the weights are unchanged and the run continues
            return {"refused": str(error)}
        facts = asdict(update) | {"modules": len(rows), "update_s": time.monotonic() - began}
        self._tuner.save(state)
        write_json(facts_path, facts)
        self._prune_states()
        self._serve(author)
        return facts

    def experiences(self, iteration: int) -> list[Experience]:
        """The batch of the update: modules of all kinds in turn, with the probability of their proposal."""
        found = self._database.rows(
            "SELECT * FROM modules WHERE iteration = ? AND (text IS NOT NULL OR answer IS NOT NULL) AND conversation != '[]' "
            "ORDER BY row_number() OVER (PARTITION BY kind ORDER BY id), kind LIMIT ?",
            iteration, self.config.modules_max,
        )  # fmt: skip
        return [self._experience(row) for row in found]

    def _experience(self, row: Any) -> Experience:
        kind, messages = Kind(row["kind"]), json.loads(row["conversation"])
        grammar = grammar_of(json_schema(kind)) if form_of(kind, self._form) == "spec" else None
        prompt, performance = self._tuner.base.prompt_ids(messages), row["performance_bps"]
        if row["origin"] == "uniform":
            made = Experience(prompt, self._tuner.base.text_ids(row["text"]), performance, grammar)
        else:
            stored = json.loads(row["answer"])
            answer = Answer(stored["text"], stored["finish"], tuple(Token(**token) for token in stored["tokens"]))
            made = experience_of(prompt, answer, performance, grammar)
        repaired = len(messages) > 2
        if grammar is None or row["text"] is None or repaired or not self.config.uniform_share:
            return made  # proposed by the policy alone
        log_policy = float(self._tuner.log_p([made])[0])
        proposed = log_mixture(log_policy, uniform.log_p(kind, row["text"]), self.config.uniform_share)
        return Experience(made.prompt_ids, made.token_ids, performance, grammar, proposed)

    def _serve(self, author: Author) -> None:
        """Export the tuned model, restart the embedded endpoint with it, and point the author to it."""
        from serl.researcher.tuning.export import export_gguf

        tuned = export_gguf(self._tuner, self._gguf, self._folder / "served")
        author.use_endpoint(self._served.restart(tuned.lora, tuned.model))

    def _prune_states(self) -> None:
        """Keep the two newest states, which are enough to resume."""
        for path in states(self._folder)[:-2]:
            path.unlink()


def states(folder: Path) -> list[Path]:
    """Paths of a tuner's saved states, oldest first."""
    return sorted(folder.glob("after-*.safetensors"))


def _number(path: Path) -> int:
    return int(path.stem.rpartition("-")[2])
