"""The policy gradient on a language model.

    loss = -(1/B) Σ w_i A_i Σ_t log p(token_t) + kl_weight · KL(policy || base) - entropy_weight · H

over the tokens of B modules. A_i = (PA_i - b) divided by its root mean square in the batch, with b the running mean of PA. w_i = policy /
proposal is the importance weight, at most weight_max (off-policy REINFORCE, Williams 1992). Tokens sampled under a grammar are scored with the
masked distribution. The exact gradient of a good module that is rare under the policy nearly vanishes, so w is at least weight_min where A > 0
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
    """Figures of an update: means over the batch, under the policy before the update."""

    step: int
    performance_bps: float
    """Mean performance of the fresh modules."""
    baseline_bps: float
    loss: float
    """The loss; see this Python module."""
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
    """Why tuning stops after this update; None if it continues."""


class Tuner:
    """LoRA tuning of a base model, which it changes in place."""

    def __init__(self, base: Base, config: TuningConfig | None = None) -> None:
        from peft import LoraConfig, get_peft_model

        self.base, self.config = base, config or TuningConfig()
        lora = LoraConfig(
            r=self.config.rank, lora_alpha=self.config.alpha, lora_dropout=0.0, target_modules=list(self.config.targets),
            modules_to_save=["norm"] if self.config.norms else None, task_type="CAUSAL_LM",
        )  # fmt: skip
        torch.manual_seed(self.config.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft uses a deprecated name of transformers
            self.model: Any = get_peft_model(base.model, lora)
        self.model.eval()  # no dropout: score the distribution that was sampled
        self.masks = Masks(base.tokenizer, base.n_vocabulary)
        self.replay = Replay(self.config.replay_kept)
        self.step, self.baseline_bps = 0, float("nan")
        self.stopped: str | None = None
        self._optimizer = torch.optim.Adam(self.trained().values(), lr=self.config.learning_rate)

    def trained(self) -> dict[str, Tensor]:
        """The trainable tensors by name."""
        return {name: tensor for name, tensor in self.model.named_parameters() if tensor.requires_grad}

    @torch.no_grad()
    def log_p(self, rows: Sequence[Experience]) -> Tensor:
        """(n_rows,): Σ log p(token) of each module under the policy."""
        scores = [
            chosen(log_softmax(self._lora_model, batch, self.config.temperature), batch)
            for batch, _ in self._microbatches(rows)
        ]
        return torch.cat(scores)

    def update(self, fresh: Sequence[Experience]) -> Update:
        """One step of Adam on a batch of fresh and replayed modules. StoppedError after a stopping rule applied."""
        if self.stopped:
            raise StoppedError(f"tuning has stopped after {self.step} updates: {self.stopped}")
        if not fresh:
            raise TuningError("update: expected at least one module, got none")
        rng = np.random.default_rng([self.config.seed, self.step])
        replayed = self.replay.draw(round(len(fresh) * self.config.replay_share), rng)
        fresh = self._with_proposals(fresh)
        rows = [*fresh, *replayed]
        mean_bps = float(np.mean([row.performance_bps for row in fresh]))
        baseline_bps = self._ema(mean_bps)
        advantage = advantages(np.array([row.performance_bps for row in rows]), baseline_bps)
        self._optimizer.zero_grad()
        seen = np.mean([row for part in self._backward(rows, advantage) for row in part], axis=0)
        norm = float(torch.nn.utils.clip_grad_norm_(self.trained().values(), self.config.gradient_norm_max))
        if not np.isfinite(norm):
            raise TuningError(
                f"update {self.step + 1}: the gradient is not finite ({norm}); the weights are unchanged: use a smaller learning rate"
            )
        self._optimizer.step()
        self.step, self.baseline_bps = self.step + 1, baseline_bps
        self.replay.add(fresh)
        loss, log_p, weight, kl, mean_entropy = (float(value) for value in seen)
        self.stopped = self._stop(kl, mean_entropy)
        return Update(
            self.step, mean_bps, baseline_bps, loss, log_p, weight, kl, mean_entropy, norm, len(replayed), self.stopped
        )

    @property
    def _lora_model(self) -> Any:
        """The model with LoRA layers, without peft's wrapper."""
        return self.model.get_base_model()

    def _microbatches(self, rows: Sequence[Experience]) -> Iterator[tuple[Batch, slice]]:
        for begin in range(0, len(rows), self.config.microbatch):
            part = slice(begin, begin + self.config.microbatch)
            yield batch_of(rows[part], self.masks), part

    def _with_proposals(self, fresh: Sequence[Experience]) -> list[Experience]:
        """Set the proposal of on-policy modules to the current policy, for later replay."""
        if all(row.log_proposal is not None for row in fresh):
            return list(fresh)
        now = self.log_p(fresh).tolist()
        return [
            row if row.log_proposal is not None else Experience(**{**row.__dict__, "log_proposal": log_p})
            for row, log_p in zip(fresh, now, strict=True)
        ]

    def _ema(self, mean_bps: float) -> float:
        """The running mean of performance after a batch; the first batch initialises it."""
        decay = self.config.baseline_decay
        return decay * self.baseline_bps + (1 - decay) * mean_bps if self.step else mean_bps

    def _backward(self, rows: Sequence[Experience], advantage: Any) -> Iterator[list[tuple[float, ...]]]:
        """Gradients of all rows, microbatch by microbatch; yields (loss, log p, weight, KL, entropy) of each row."""
        config = self.config
        for batch, part in self._microbatches(rows):
            with torch.no_grad(), self.model.disable_adapter():
                log_base = log_softmax(self._lora_model, batch, config.temperature)
            estimate = straight_through if config.estimator == "straight_through" else log_softmax
            log_all = estimate(self._lora_model, batch, config.temperature)
            log_p, kl, entropies = chosen(log_all, batch), divergence(log_all, log_base, batch), entropy(log_all, batch)
            proposed = torch.tensor([row.log_proposal for row in rows[part]])
            weight = (log_p.detach() - proposed).exp().clamp(max=config.weight_max)
            row_advantage = torch.tensor(advantage[part], dtype=torch.float32)
            weight = torch.where(row_advantage > 0, weight.clamp(min=config.weight_min), weight)
            loss = -weight * row_advantage * log_p + config.kl_weight * kl - config.entropy_weight * entropies
            (loss.sum() / len(rows)).backward()
            yield torch.stack([loss.detach(), log_p, weight, kl, entropies], dim=1).tolist()

    def _stop(self, kl: float, mean_entropy: float) -> str | None:
        if kl > self.config.kl_max:
            return f"KL to the base model is {kl:.2f} nats per module, the limit is {self.config.kl_max:g}"
        if mean_entropy < self.config.entropy_min:
            return f"entropy is {mean_entropy:.3f} nats per module, the minimum is {self.config.entropy_min:g}"
        return None

    def save(self, path: Path) -> None:
        """Save adapter, Adam's moments, baseline and replay to one safetensors file, atomically."""
        moments = self._optimizer.state_dict()["state"]
        tensors = {f"adapter.{name}": tensor.detach() for name, tensor in self.trained().items()}
        tensors |= {f"adam.{index}.{name}": value for index, row in moments.items() for name, value in row.items()}
        facts = {
            "config": self.config.model_dump(mode="json"), "step": self.step, "baseline_bps": self.baseline_bps,
            "stopped": self.stopped, "replay": [asdict(row) for row in self.replay.kept],
        }  # fmt: skip
        files.write(path, KIND, tensors, facts)

    def resume(self, path: Path) -> None:
        """Restore a saved state; TuningError if its settings differ. The next update equals that of an uninterrupted run."""
        tensors, facts = files.read(path, KIND)
        if facts["config"] != self.config.model_dump(mode="json"):
            raise TuningError(f"{path}: the state has the settings {facts['config']}; use the same, or start a new run")
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
