"""LoRA tuning of a language model on scored modules. The losses of the chosen methods are added, each a mean over its B modules or pairs:

    policy gradient  -w_i A_i Σ_t log p(token_t)
    supervised       -Σ_t log p(token_t) of a winner
    preference       -log σ(β (log p(better)/p0(better) - log p(worse)/p0(worse))), p0 the model at the start (DPO, arXiv 2305.18290)

and kl_weight · KL(policy || start) - entropy_weight · H for all modules. A_i is the advantage (see `rewards`). w_i = policy / proposal is the
importance weight, at most weight_max (off-policy REINFORCE, Williams 1992). Tokens sampled under a grammar are scored with the masked
distribution. The exact gradient of a good module that is rare under the policy nearly vanishes, so w is at least weight_min where A > 0
(self-imitation, Oh et al. 2018; 0 gives the unbiased estimate).
"""

import copy
import re
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from serl.agents.learning import files
from serl.agents.learning.settings import SAVED
from serl.researcher.tuning.base import Base
from serl.researcher.tuning.config import TuningConfig
from serl.researcher.tuning.errors import StoppedError, TuningError
from serl.researcher.tuning.experience import Experience
from serl.researcher.tuning.masks import Masks
from serl.researcher.tuning.matmul import onednn_matmul
from serl.researcher.tuning.pool import Minibatch, minibatch_of
from serl.researcher.tuning.scores import (
    Batch,
    batch_of,
    chosen,
    divergence,
    entropy,
    log_softmax,
    log_softmax_of,
    states,
    straight_through,
)
from serl.researcher.tuning.trunk import Kept, Trunk

KIND = "tuning"
LossOf = Callable[[tuple[Tensor, Tensor], slice], tuple[Tensor, Tensor]]


@dataclass(frozen=True)
class Update:
    """Figures of an update: means over the batch, under the policy before the update."""

    step: int
    performance_bps: float
    """Mean measured performance of the modules."""
    loss: float
    """The loss; see this module's docstring."""
    log_p: float
    """Σ log p(token) of a module."""
    weight: float
    """Importance weight; 1 for winners and pairs."""
    kl: float
    """KL(policy || start) of a module, in nats."""
    entropy: float
    """Entropy of a module, in nats."""
    gradient_norm: float
    n_modules: int
    n_winners: int
    n_pairs: int
    strength: float
    """Scale of the step, in [0, 1]: small if the scores differ by less than their noise."""
    stop: str | None
    """Why tuning stops after this update; None if it continues."""


class Tuner:
    """LoRA tuning of a base model, which it changes in place."""

    def __init__(self, base: Base, config: TuningConfig | None = None) -> None:
        from peft import LoraConfig, get_peft_model

        self.base, self.config = base, config or TuningConfig()
        self._device = _device(self.config)
        base.model.to(self._device)
        first = _first_layer(base.model, self.config)
        n_layers = base.model.config.num_hidden_layers
        lora = LoraConfig(
            r=self.config.rank, lora_alpha=self.config.alpha, lora_dropout=0.0, target_modules=list(self.config.targets),
            layers_to_transform=list(range(first, n_layers)) if first else None,
            modules_to_save=_norms(base.model, first) if self.config.norms else None, task_type="CAUSAL_LM",
        )  # fmt: skip
        torch.manual_seed(self.config.seed)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # peft uses a deprecated name of transformers
            self.model: Any = get_peft_model(base.model, lora)
        self.model.eval()  # no dropout: score the distribution that was sampled
        self._trunk = Trunk(self._lora_model, n_layers - first) if first else None
        self.masks = Masks(base.tokenizer, base.n_vocabulary)
        self.step = 0
        self.stopped: str | None = None
        self.proposals: dict[str, float] = {}
        """Log-probabilities of the proposals of past modules by id; saved, because the policy that proposed them no longer exists."""
        self._start, self._start_states = self._copy(), Kept()
        self._optimizer = torch.optim.Adam(self.trained().values(), lr=self.config.learning_rate)

    def trained(self) -> dict[str, Tensor]:
        """The trainable tensors by name."""
        return {name: tensor for name, tensor in self.model.named_parameters() if tensor.requires_grad}

    @torch.no_grad()
    @onednn_matmul()
    def log_p(self, rows: Sequence[Experience]) -> Tensor:
        """(n_rows,): Σ log p(token) of each module under the policy."""
        scores = [
            chosen(log_softmax(self._lora_model, batch, self.config.temperature, self._trunk), batch)
            for batch, _ in self._microbatches(rows)
        ]
        return torch.cat(scores)

    def update(self, rows: Sequence[Experience]) -> Update:
        """One step of Adam on modules with exact performance. StoppedError after a stopping rule applied."""
        return self.learn(minibatch_of(rows, self.config))

    @onednn_matmul()
    def learn(self, batch: Minibatch) -> Update:
        """One step of Adam on a minibatch. StoppedError after a stopping rule applied; TuningError if it is empty."""
        if self.stopped:
            raise StoppedError(f"tuning has stopped after {self.step} updates: {self.stopped}")
        if not batch:
            raise TuningError("update: expected at least one module, winner or pair, got none")
        batch = replace(batch, rows=tuple(self._with_proposals(batch.rows)))
        self._optimizer.zero_grad()
        seen = np.mean([row for part in self._backward(batch) for row in part], axis=0)
        norm = float(torch.nn.utils.clip_grad_norm_(self.trained().values(), self.config.gradient_norm_max))
        if not np.isfinite(norm):
            raise TuningError(
                f"update {self.step + 1}: the gradient is not finite ({norm}); the weights are unchanged: use a smaller learning rate"
            )
        for group in self._optimizer.param_groups:
            group["lr"] = self.config.learning_rate * batch.strength
        self._optimizer.step()
        self.step += 1
        loss, log_p, weight, kl, mean_entropy = (float(value) for value in seen)
        self.stopped = self._stop(kl, mean_entropy)
        learnt = [*batch.rows, *batch.winners, *(one for pair in batch.pairs for one in pair)]
        return Update(
            self.step, float(np.mean([row.performance_bps for row in learnt])), loss, log_p, weight, kl, mean_entropy, norm,
            len(batch.rows), len(batch.winners), len(batch.pairs), batch.strength, self.stopped,
        )  # fmt: skip

    @contextmanager
    def undone_if_refused(self) -> Iterator[None]:
        """Undo all updates of the block if one of them is refused (TuningError): its gradient is not finite because of the weights before it."""
        before = self._copy(), copy.deepcopy(self._optimizer.state_dict()), self.step, self.stopped
        try:
            yield
        except TuningError:
            weights, moments, self.step, self.stopped = before
            self._set(weights)
            self._optimizer.load_state_dict(moments)
            raise

    @property
    def _lora_model(self) -> Any:
        """The model with LoRA layers, without peft's wrapper."""
        return self.model.get_base_model()

    def _microbatches(self, rows: Sequence[Experience], size: int = 0) -> Iterator[tuple[Batch, slice]]:
        size = size or self.config.microbatch
        for begin in range(0, len(rows), size):
            part = slice(begin, begin + size)
            yield self._batch_of(rows[part]), part

    def _batch_of(self, rows: Sequence[Experience]) -> Batch:
        return batch_of(rows, self.masks).to(self._device)

    def _with_proposals(self, fresh: Sequence[Experience]) -> list[Experience]:
        """The modules, with the proposal of on-policy modules set to the current policy."""
        if all(row.log_proposal is not None for row in fresh):
            return list(fresh)
        now = self.log_p(fresh).tolist()
        return [
            row if row.log_proposal is not None else replace(row, log_proposal=log_p)
            for row, log_p in zip(fresh, now, strict=True)
        ]

    def _backward(self, batch: Minibatch) -> Iterator[list[tuple[float, ...]]]:
        """Accumulate the gradients of all modules, microbatch by microbatch. Yields (loss, log p, weight, KL, entropy) of each module. Modules of
        similar length share a microbatch, because padding costs as much as tokens."""
        batch = _by_length(batch)
        if batch.rows:
            proposed = torch.tensor([row.log_proposal for row in batch.rows], device=self._device)
            advantage = torch.tensor(batch.advantage, dtype=torch.float32, device=self._device)
            yield from self._part(
                batch.rows, lambda scores, part: self._policy_gradient(scores[0], proposed[part], advantage[part])
            )
        yield from self._part(batch.winners, lambda scores, part: (-scores[0], torch.ones_like(scores[0])))
        paired = [one for pair in batch.pairs for one in pair]
        yield from self._part(
            paired, lambda scores, part: self._preference(*scores), 2 * max(1, self.config.microbatch // 2)
        )

    def _part(self, rows: Sequence[Experience], loss_of: LossOf, size: int = 0) -> Iterator[list[tuple[float, ...]]]:
        """Accumulate the gradients of one method. `loss_of` gets (log p, log p0) of a microbatch and its slice of the rows. It returns losses and
        weights."""
        config = self.config
        for made, part in self._microbatches(rows, size):
            log_start = self._log_start(rows[part], made)
            estimate = straight_through if config.estimator == "straight_through" else log_softmax
            log_all = estimate(self._lora_model, made, config.temperature, self._trunk)
            log_p, kl, entropies = chosen(log_all, made), divergence(log_all, log_start, made), entropy(log_all, made)
            loss, weight = loss_of((log_p, chosen(log_start, made)), part)
            loss = loss + config.kl_weight * kl - config.entropy_weight * entropies
            (loss.sum() / len(rows)).backward()
            yield torch.stack([loss.detach(), log_p, weight, kl, entropies], dim=1).tolist()

    @torch.no_grad()
    def _log_start(self, rows: Sequence[Experience], made: Batch) -> Tensor:
        """(n, n_vocabulary): log-probabilities of a microbatch at the start. Its states are cached, because the start does not change."""

        def computed(places: list[int]) -> list[Tensor]:
            part = self._batch_of([rows[place] for place in places])
            with self._at_start():
                found = states(self._lora_model, part, self._trunk)
            return [found[part.row == index].clone() for index in range(len(places))]

        known = self._start_states.all_of([(row.prompt_ids, row.token_ids, row.grammar) for row in rows], computed)
        return log_softmax_of(torch.cat(known), self._lora_model, made, self.config.temperature)

    def _policy_gradient(self, log_p: Tensor, proposed: Tensor, advantage: Tensor) -> tuple[Tensor, Tensor]:
        weight = (log_p.detach() - proposed).exp().clamp(max=self.config.weight_max)
        weight = torch.where(advantage > 0, weight.clamp(min=self.config.weight_min), weight)
        return -weight * advantage * log_p, weight

    def _preference(self, log_p: Tensor, log_start: Tensor) -> tuple[Tensor, Tensor]:
        """(losses, weights) of rows that alternate better, worse. Both rows carry the loss of their pair, so the mean over rows is the mean over
        pairs."""
        over = log_p - log_start
        loss = -torch.nn.functional.logsigmoid(self.config.preference_beta * (over[0::2] - over[1::2]))
        return loss.repeat_interleave(2), torch.ones_like(log_p)

    def _copy(self) -> dict[str, Tensor]:
        return {name: tensor.detach().clone() for name, tensor in self.trained().items()}

    @contextmanager
    def _at_start(self) -> Iterator[None]:
        """The model as before tuning, for the duration of the context."""
        now = self._copy()
        self._set(self._start)
        try:
            yield
        finally:
            self._set(now)

    @torch.no_grad()
    def _set(self, tensors: Mapping[str, Tensor]) -> None:
        for name, tensor in self.trained().items():
            tensor.copy_(tensors[name])

    def start_from(self, tensors: Mapping[str, Tensor]) -> None:
        """Start from the weights of an adapter: KL and preferences are relative to it. Call before the first update."""
        self._set(tensors)
        self._start, self._start_states = self._copy(), Kept()

    def _stop(self, kl: float, mean_entropy: float) -> str | None:
        if kl > self.config.kl_max:
            return f"KL to the base model is {kl:.2f} nats per module, the limit is {self.config.kl_max:g}"
        if mean_entropy < self.config.entropy_min:
            return f"entropy is {mean_entropy:.3f} nats per module, the minimum is {self.config.entropy_min:g}"
        return None

    def save(self, path: Path) -> None:
        """Save adapter, Adam's moments and proposals to one safetensors file, atomically."""
        moments = self._optimizer.state_dict()["state"]
        tensors = {f"adapter.{name}": tensor.detach() for name, tensor in self.trained().items()}
        tensors |= {f"adam.{index}.{name}": value for index, row in moments.items() for name, value in row.items()}
        facts = {
            "config": self.config.model_dump(mode="json"), "step": self.step, "stopped": self.stopped, "proposals": self.proposals,
        }  # fmt: skip
        files.write(path, KIND, tensors, facts)

    def resume(self, path: Path) -> None:
        """Restore a saved state. TuningError if its settings differ, other than the device. On a CPU the next update equals that of an uninterrupted
        run."""
        tensors, facts = files.read(path, KIND)
        settings = TuningConfig.model_validate(facts["config"], context=SAVED)
        if settings.model_copy(update={"device": self.config.device}) != self.config:
            raise TuningError(f"{path}: the state has the settings {facts['config']}; use the same, or start a new run")
        self._set({name.removeprefix("adapter."): tensor for name, tensor in tensors.items()})
        state: dict[int, dict[str, Tensor]] = {}
        for name, tensor in tensors.items():
            if name.startswith("adam."):
                _, index, moment = name.split(".")
                state.setdefault(int(index), {})[moment] = tensor
        self._optimizer.load_state_dict({**self._optimizer.state_dict(), "state": state})
        self.step, self.stopped, self.proposals = facts["step"], facts["stopped"], dict(facts.get("proposals", {}))


def saved_settings(path: Path) -> TuningConfig:
    """The settings of a saved state."""
    return TuningConfig.model_validate(files.read(path, KIND)[1]["config"], context=SAVED)


def _device(config: TuningConfig) -> torch.device:
    """The device of the settings. TuningError if PyTorch cannot use it."""
    if config.device == "cuda" and not torch.cuda.is_available():
        raise TuningError(
            f"device: expected a GPU that PyTorch {torch.__version__} can use, got none; set tuning.device: cpu, or install PyTorch's CUDA build"
        )
    return torch.device(config.device)


def _first_layer(model: Any, config: TuningConfig) -> int:
    """The lowest layer that is trained."""
    n_layers = int(model.config.num_hidden_layers)
    return 0 if config.layers is None else max(0, n_layers - config.layers)


def _norms(model: Any, first: int) -> list[str]:
    """Names of the norms from layer `first` up, the final one included."""
    named = [name for name, _ in model.named_modules() if name.endswith("norm")]
    places = [re.search(r"\.layers\.(\d+)\.", name) for name in named]
    return [name for name, place in zip(named, places, strict=True) if place is None or int(place[1]) >= first]


def _by_length(batch: Minibatch) -> Minibatch:
    """The minibatch with shorter modules first."""
    order = sorted(range(len(batch.rows)), key=lambda index: _length(batch.rows[index]))
    return replace(
        batch, rows=tuple(batch.rows[i] for i in order), advantage=tuple(batch.advantage[i] for i in order),
        winners=tuple(sorted(batch.winners, key=_length)), pairs=tuple(sorted(batch.pairs, key=lambda pair: max(map(_length, pair)))),
    )  # fmt: skip


def _length(row: Experience) -> int:
    return len(row.prompt_ids) + len(row.token_ids)
