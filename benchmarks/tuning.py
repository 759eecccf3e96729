"""Methods of tuning on a task where learning can be seen: a known score over specifications, measured with noise.

    python -m benchmarks.tuning                     # a small model of this machine's making; some minutes
    python -m benchmarks.tuning --model tiny        # the tiny model: hours
    python -m benchmarks.tuning --quick

The score is additive over the choices of a specification, with random effects by seed, scaled to deviation 1 over uniform specifications; a
measurement adds normal noise of deviation --noise, and methods know that deviation. In each iteration a method gets 8 candidates, some of them
uniform, the rest written by its model, and their measurements. The table shows the mean true score of 64 modules that the model then writes,
minus that of the untuned model, in deviations of uniform specifications, over seeds (95 % t-intervals), and the seconds of an update.
"""

import argparse
import copy
import json
import math
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.tuning_model import sampled, small_base
from serl.agents.students_t import student
from serl.researcher.llm.models import find
from serl.researcher.llm.requests import grammar_of
from serl.researcher.modules.contracts import Kind
from serl.researcher.modules.specs import json_schema
from serl.researcher.outer import uniform
from serl.researcher.tuning.base import Base, load_base
from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.experience import Experience, log_mixture
from serl.researcher.tuning.features import features_of
from serl.researcher.tuning.pool import Pool, Scored
from serl.researcher.tuning.rewards import Measurement
from serl.researcher.tuning.tuner import Tuner

METHODS: dict[str, dict[str, Any]] = {
    "former": {"denoise": False, "replay_kept": 0, "updates": 1, "known": False},
    "raw": {"denoise": False},
    "policy_gradient": {},
    "straight_through": {"estimator": "straight_through"},
    "preference": {"methods": ("preference",)},
    "supervised": {"methods": ("supervised",)},
    "gradient+preference": {"methods": ("policy_gradient", "preference")},
    "gradient+supervised": {"methods": ("policy_gradient", "supervised")},
}
"""former: one update an iteration on its modules alone, and the noise is not known. raw: without the surrogate."""
CANDIDATES, SHARE, SAMPLES = 8, 0.3, 64
SMALL_RATE = 3e-3
"""Learning rate for the small model: with its few weights, 5e-4 moves it a tenth as far as the tiny model."""


class Truth:
    """The known score: a sum of effects of the choices."""

    def __init__(self, kind: Kind, seed: int) -> None:
        self.kind, self._rng, self._effects = kind, np.random.default_rng([seed, 1]), dict[str, float]()
        drawn = [self._raw(uniform.draw(kind, self._rng)) for _ in range(1000)]
        self._mean, self._deviation = float(np.mean(drawn)), float(np.std(drawn))

    def _raw(self, text: str) -> float:
        found = {name: value for name, value in features_of({self.kind: text}).items() if not name.endswith("#")}
        for name in found:
            self._effects.setdefault(name, float(self._rng.normal()))
        return sum(value * self._effects[name] for name, value in found.items())

    def __call__(self, text: str) -> float:
        """The true score of a specification."""
        return (self._raw(text) - self._mean) / self._deviation


@dataclass
class Study:
    """The settings that all methods share."""

    kind: Kind
    base: Base
    prompt: tuple[int, ...]
    noise: float
    iterations: int
    updates: int
    settings: dict[str, Any]

    @property
    def grammar(self) -> str:
        """The grammar of the kind's schema."""
        return grammar_of(json_schema(self.kind))

    def fresh_tuner(self, **changes: Any) -> Tuner:
        """A tuner of the untuned model."""
        base = replace(self.base, model=copy.deepcopy(self.base.model))  # a tuner changes its model for good
        settings: dict[str, Any] = {"microbatch": 8, **self.settings, **changes}
        return Tuner(base, TuningConfig(**settings))

    def written(self, tuner: Tuner, truth: Truth, n: int, rng: np.random.Generator) -> list[float]:
        """True scores of modules that the model writes."""
        made = [self.base.tokenizer.decode(ids) for part in range(0, n, 32) for ids in sampled(tuner, self.prompt, self.grammar, min(32, n - part), rng)]  # fmt: skip
        return [truth(text) for text in made]


def run(study: Study, method: str, seed: int) -> dict[str, float]:
    """One method with one seed."""
    options = dict(METHODS[method]) if method != "none" else {}
    updates, known = options.pop("updates", study.updates), options.pop("known", True)
    truth, rng = Truth(study.kind, seed), np.random.default_rng([seed, 2])
    tuner, rows, seconds, skipped = study.fresh_tuner(seed=seed, **options), list[Scored](), 0.0, 0
    for iteration in range(study.iterations if method != "none" else 0):
        rows = [replace(row, fresh=False) for row in rows] + _measured(study, tuner, truth, rng, iteration, known)
        began, pool = time.perf_counter(), Pool(rows, tuner.config)
        for _ in range(updates):
            batch = pool.minibatch(CANDIDATES, rng)
            if tuner.stopped or not batch:
                skipped += 1
                continue
            last = tuner.learn(batch)
        seconds += time.perf_counter() - began
    score = float(np.mean(study.written(tuner, truth, SAMPLES, np.random.default_rng([seed, 3]))))
    kl = last.kl if tuner.step else 0.0
    return {
        "score": score,
        "updates": tuner.step,
        "skipped": skipped,
        "update_s": seconds / max(1, tuner.step),
        "kl": kl,
    }


def _measured(
    study: Study, tuner: Tuner, truth: Truth, rng: np.random.Generator, iteration: int, known: bool
) -> list[Scored]:
    """The candidates of an iteration: a share uniform, the rest from the policy, with the probability of that mixture."""
    n_uniform = int(rng.binomial(CANDIDATES, SHARE))
    ids = sampled(tuner, study.prompt, study.grammar, CANDIDATES - n_uniform, rng) if n_uniform < CANDIDATES else []
    ids += [study.base.text_ids(uniform.draw(study.kind, rng)) for _ in range(n_uniform)]
    policy = tuner.log_p([Experience(study.prompt, row, 0.0, study.grammar) for row in ids]).tolist()
    found = []
    for place, (row, log_p) in enumerate(zip(ids, policy, strict=True)):
        text = study.base.tokenizer.decode(row)
        score = truth(text) + study.noise * float(rng.normal())
        module = Experience(
            study.prompt, row, score, study.grammar, log_mixture(log_p, uniform.log_p(study.kind, text), SHARE)
        )
        measured = Measurement(score, study.noise if known else 0.0, features_of({study.kind: text}))
        found.append(Scored(module, study.kind, f"{iteration}-{place}", "task", measured))
    return found


def half_interval(values: list[float]) -> float:
    """Half the 95 % t-interval of the mean."""
    return (
        student(len(values) - 1) * float(np.std(values, ddof=1)) / math.sqrt(len(values))
        if len(values) > 1
        else math.nan
    )


def table(found: dict[str, list[dict[str, float]]]) -> str:
    """A row per method: gains over no tuning by seed, with a 95 % t-interval of their mean."""
    untuned = [one["score"] for one in found["none"]]
    lines = [f"untuned model: {np.mean(untuned):+.2f} deviations over {len(untuned)} seeds", f"{'method':20} {'gain [95 %]':22} updates skipped   KL  s/update"]  # fmt: skip
    for method, rows in found.items():
        if method == "none":
            continue
        gains = [row["score"] - before for row, before in zip(rows, untuned, strict=True)]
        half = half_interval(gains)
        mean = {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}
        text = f"{np.mean(gains):+.2f} [{np.mean(gains) - half:+.2f}, {np.mean(gains) + half:+.2f}]"
        lines.append(
            f"{method:20} {text:22} {mean['updates']:7.0f} {mean['skipped']:7.0f} {mean['kl']:4.1f} {mean['update_s']:9.2f}"
        )
    return "\n".join(lines)


def study_of(arguments: argparse.Namespace) -> Study:
    """The study that the command line describes."""
    kind = Kind(arguments.kind)
    base = small_base(kind) if arguments.model == "small" else load_base(find(arguments.model))
    prompt = (
        (0,) if arguments.model == "small" else base.prompt_ids([{"role": "user", "content": f"Write a {kind.value}."}])
    )
    settings = ({"learning_rate": SMALL_RATE} if arguments.model == "small" else {}) | json.loads(arguments.settings)
    return Study(kind, base, prompt, arguments.noise, arguments.iterations, arguments.updates, settings)


def parser() -> argparse.ArgumentParser:
    """The command line parser."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.tuning", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)  # fmt: skip
    parser.add_argument("--model", default="small", help="small, tiny, coder or a GGUF file")
    parser.add_argument("--kind", choices=["policy", "reward"], default="reward")
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--iterations", type=int, default=12, help=f"of {CANDIDATES} candidates")
    parser.add_argument("--updates", type=int, default=6, help="per iteration")
    parser.add_argument("--noise", type=float, default=1.0, help="deviation of a measurement over that of true scores")
    parser.add_argument("--settings", default="{}", help="settings of tuning as JSON, for all methods")
    parser.add_argument("--output", type=Path, help="JSON file of all figures")
    parser.add_argument("--quick", action="store_true", help="two seeds of four iterations")
    return parser


def main() -> None:
    """Run the comparison and print its table."""
    arguments = parser().parse_args()
    if arguments.quick:
        arguments.seeds, arguments.iterations = 2, 4
    torch.set_num_threads(1)
    study = study_of(arguments)
    found: dict[str, list[dict[str, float]]] = {method: [] for method in ("none", *arguments.methods)}
    for seed in range(arguments.first_seed, arguments.first_seed + arguments.seeds):
        for method, rows in found.items():
            rows.append(run(study, method, seed))
            if arguments.output:
                arguments.output.write_text(json.dumps(found, indent=1))
    print(table(found))


if __name__ == "__main__":
    main()
