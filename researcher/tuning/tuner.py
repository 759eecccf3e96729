"""The policy gradient on a language model.

    loss = -(1/B) Σ w_i A_i Σ_t log p(token_t) + kl_weight · KL(policy || base) - entropy_weight · H

over the tokens of B modules: A_i = (PA_i - b) over its root mean square in the batch, b the running mean of PA, w_i = policy / proposal the
importance weight, cut off at weight_max (REINFORCE, Williams 1992, off-policy). Tokens drawn under a grammar count with the masked distribution.
The true gradient nearly vanishes for a good candidate that is rare under the policy, so where A > 0 no weight falls below weight_min
(self-imitation, Oh et al. 2018; 0 gives the unbiased estimate).
"""

import warnings
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from serl.agents.learning import files
from serl.researcher.tuning.base import Base
from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.errors import StoppedError, TuningError
from serl.researcher.tuning.experience import Experience, Replay, advantages
from serl.researcher.tuning.masks import Masks
from serl.researcher.tuning.scores import (
    Batch,
    batch_of,
    chosen,
    divergence,
    entropy,
    log_softmax,
    straight_through,
)

KIND = "tuning"


@dataclass(frozen=True)
class Update:
    """What an update did; means over the batch, as the policy was before it."""

    step: int
    performance_bps: float
    """Of the fresh candidates."""
    baseline_bps: float
    loss: float
    """What was descended; see this module."""
    log_p: float
    """Σ log p(token) of a module."""
    weight: float
    kl: float
    """KL(policy || base) of a module, in nats."""
    entropy: float
    """Of a module, in nats."""
    gradient_norm: float
    n_replayed: int
    stop: str | None
    """Why the next update is refused, if it is."""


class Tuner:
    """LoRA on a base model, which is changed in place."""

    def __init__(self, base: Base, config: TuningConfig | None = None) -> None:
        from peft import LoraConfig, get_peft_model

        self.base, self.config = base, config or TuningConfig()
        lora = LoraConfig(
            r=self.config.rank, lora_alpha=self.config.alpha, lora_dropout=0.0, target_modules=list(self.config.targets),
            modules_to_save=["norm"] if self.config.norms else None, task_type="CAUSAL_LM",
        )  # fmt: skip
        torch.manual_seed(self.config.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft asks transformers by a name that is going
            self.model: Any = get_peft_model(base.model, lora)
        self.model.eval()  # no dropout: what is scored is what was drawn
        self.masks = Masks(base.tokenizer, base.n_vocabulary)
        self.replay = Replay(self.config.replay_kept)
        self.step, self.baseline_bps = 0, float("nan")
        self.stopped: str | None = None
        self._optimizer = torch.optim.Adam(self.trained().values(), lr=self.config.learning_rate)

    def trained(self) -> dict[str, Tensor]:
        """The tensors that are learnt, by name."""
        return {name: tensor for name, tensor in self.model.named_parameters() if tensor.requires_grad}

    @torch.no_grad()
    def log_p(self, rows: Sequence[Experience]) -> Tensor:
        """(n_rows,): Σ log p(token) of each module under the policy."""
        scores = [
            chosen(log_softmax(self._inner, batch, self.config.temperature), batch)
            for batch, _ in self._microbatches(rows)
        ]
        return torch.cat(scores)

    def update(self, fresh: Sequence[Experience]) -> Update:
        """One step of Adam on a batch of candidates and some replayed ones. StoppedError once the stop rule has spoken."""
        if self.stopped:
            raise StoppedError(f"tuning has stopped after {self.step} updates: {self.stopped}")
        if not fresh:
            raise TuningError("update: at least one candidate is due, got none")
        rng = np.random.default_rng([self.config.seed, self.step])
        replayed = self.replay.draw(round(len(fresh) * self.config.replay_share), rng)
        fresh = self._with_proposals(fresh)
        rows = [*fresh, *replayed]
        mean_bps = float(np.mean([row.performance_bps for row in fresh]))
        baseline_bps = self._followed(mean_bps)
        gains = advantages(np.array([row.performance_bps for row in rows]), baseline_bps)
        self._optimizer.zero_grad()
        seen = np.mean([row for part in self._backward(rows, gains) for row in part], axis=0)
        norm = float(torch.nn.utils.clip_grad_norm_(self.trained().values(), self.config.gradient_norm_max))
        if not np.isfinite(norm):
            raise TuningError(f"update {self.step + 1}: the gradient is not finite ({norm}); all is as it was before")
        self._optimizer.step()
        self.step, self.baseline_bps = self.step + 1, baseline_bps
        self.replay.add(fresh)
        loss, log_p, weight, kl, entropy_now = (float(value) for value in seen)
        self.stopped = self._stop(kl, entropy_now)
        return Update(
            self.step, mean_bps, baseline_bps, loss, log_p, weight, kl, entropy_now, norm, len(replayed), self.stopped
        )

    @property
    def _inner(self) -> Any:
        """The model with the adapter in it, without peft's shell."""
        return self.model.get_base_model()

    def _microbatches(self, rows: Sequence[Experience]) -> Iterator[tuple[Batch, slice]]:
        for begin in range(0, len(rows), self.config.microbatch):
            part = slice(begin, begin + self.config.microbatch)
            yield batch_of(rows[part], self.masks), part

    def _with_proposals(self, fresh: Sequence[Experience]) -> list[Experience]:
        """On-policy candidates were proposed by the policy as it is now; replayed later, that is the past."""
        if all(row.log_proposal is not None for row in fresh):
            return list(fresh)
        now = self.log_p(fresh).tolist()
        return [
            row if row.log_proposal is not None else Experience(**{**row.__dict__, "log_proposal": log_p})
            for row, log_p in zip(fresh, now, strict=True)
        ]

    def _followed(self, mean_bps: float) -> float:
        """The running mean of performance after a batch; it begins with the first batch's."""
        decay = self.config.baseline_decay
        return decay * self.baseline_bps + (1 - decay) * mean_bps if self.step else mean_bps

    def _backward(self, rows: Sequence[Experience], gains: Any) -> Iterator[list[tuple[float, ...]]]:
        """Gradients of all rows, microbatch by microbatch; yields (loss, log p, weight, KL, entropy) of each row."""
        config = self.config
        for batch, part in self._microbatches(rows):
            with torch.no_grad(), self.model.disable_adapter():
                log_base = log_softmax(self._inner, batch, config.temperature)
            estimate = straight_through if config.estimator == "straight_through" else log_softmax
            log_all = estimate(self._inner, batch, config.temperature)
            log_p, kl, spread = chosen(log_all, batch), divergence(log_all, log_base, batch), entropy(log_all, batch)
            proposed = torch.tensor([row.log_proposal for row in rows[part]])
            weight = (log_p.detach() - proposed).exp().clamp(max=config.weight_max)
            gain = torch.tensor(gains[part], dtype=torch.float32)
            weight = torch.where(gain > 0, weight.clamp(min=config.weight_min), weight)
            loss = -weight * gain * log_p + config.kl_weight * kl - config.entropy_weight * spread
            (loss.sum() / len(rows)).backward()
            yield torch.stack([loss.detach(), log_p, weight, kl, spread], dim=1).tolist()

    def _stop(self, kl: float, entropy_now: float) -> str | None:
        if kl > self.config.kl_max:
            return f"KL to the base model is {kl:.2f} nats a module, at most {self.config.kl_max:g} is allowed"
        if entropy_now < self.config.entropy_min:
            return f"entropy is {entropy_now:.3f} nats a module, at least {self.config.entropy_min:g} is due"
        return None

    def save(self, path: Path) -> None:
        """Adapter, Adam's moments, baseline and replay in one safetensors file, whole or not at all."""
        moments = self._optimizer.state_dict()["state"]
        tensors = {f"adapter.{name}": tensor.detach() for name, tensor in self.trained().items()}
        tensors |= {f"adam.{index}.{name}": value for index, row in moments.items() for name, value in row.items()}
        facts = {
            "config": self.config.model_dump(mode="json"), "step": self.step, "baseline_bps": self.baseline_bps,
            "stopped": self.stopped, "replay": [asdict(row) for row in self.replay.kept],
        }  # fmt: skip
        files.write(path, KIND, tensors, facts)

    def resume(self, path: Path) -> None:
        """Goes back to a saved state; TuningError if it is of other settings. The next update is the one that would have come."""
        tensors, facts = files.read(path, KIND)
        if facts["config"] != self.config.model_dump(mode="json"):
            raise TuningError(f"{path}: was made with the settings {facts['config']}; use the same, or begin anew")
        with torch.no_grad():
            for name, tensor in self.trained().items():
                tensor.copy_(tensors[f"adapter.{name}"])
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("adam."):
                _, index, moment = name.split(".")
                state.setdefault(int(index), {})[moment] = tensor
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": state})
        self.step, self.baseline_bps, self.stopped = facts["step"], facts["baseline_bps"], facts["stopped"]
        self.replay.kept = [
            Experience(**{**row, "prompt_ids": tuple(row["prompt_ids"]), "token_ids": tuple(row["token_ids"])})
            for row in facts["replay"]
        ]
