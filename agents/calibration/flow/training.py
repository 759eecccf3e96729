"""Training maximises the likelihood of each message's token, wait, size and age, given the inputs before it."""

import base64
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from serl.agents.calibration.errors import CalibrationError
from serl.agents.calibration.flow.samples import Samples
from serl.agents.one_thread import one_thread
from serl.agents.realism.tape import Floats, Ints
from serl.agents.traders.flow_features import INPUTS
from serl.agents.traders.flow_network import AGES, GIVEN, HIDDEN, INPUT_MAX, OUTPUTS, PARTS, SIZES, WAITS
from serl.agents.traders.flow_tokens import CANCEL_AT, LOCAL, TOKENS, TRADE_LESS, mirrored

EPOCHS_MAX, PATIENCE = 20, 3
BATCH, LEARNING_RATE, WEIGHT_DECAY = 512, 1e-3, 1e-4
DROPOUT = 0.1
VALIDATION_SHARE = 0.1
"""Share of the training hours, at their end, that decides when training stops."""
ATOM_SHARE, ATOMS_MAX = 0.01, 16
"""Sizes that at least this share of the orders has are separate classes, at most ATOMS_MAX."""
TAIL_CLASSES = 6
"""Number of tail classes of waits, ages and sizes; see `shares`."""
NOTHING = -100
"""A missing target; torch's `ignore_index`."""

Numbers = dict[str, NDArray[Any]]
"""Arrays by the names of flow_network.PARTS."""


@dataclass(frozen=True)
class Trained:
    """The network and the history of its training."""

    numbers: Numbers
    nats: list[float] = field(default_factory=list)
    """Mean negative log-likelihood of a message of the validation part, after each epoch; [0] before the first."""

    def text(self) -> str:
        """The numbers as text, for a profile."""
        parts = [np.ascontiguousarray(self.numbers[name], "<f4").reshape(shape) for name, shape in PARTS.items()]
        return base64.b64encode(b"".join(part.tobytes() for part in parts)).decode()


@dataclass(frozen=True)
class Classes:
    """Edges and sizes of the classes."""

    wait_log_s: Floats
    age_log_s: Floats
    low_lots: Floats
    high_lots: Floats

    def targets(self, samples: Samples) -> Ints:
        """[n, 4] classes of token, wait, size and age; NOTHING where there is none."""
        wait = np.clip(np.searchsorted(self.wait_log_s, samples.wait_log_s, side="right") - 1, 0, WAITS - 1)
        age = np.clip(np.searchsorted(self.age_log_s, samples.age_log_s, side="right") - 1, 0, AGES - 2)
        cancels = samples.lots == 0
        age = np.where(np.isnan(samples.age_log_s), np.where(_is_cancel(samples.token), AGES - 1, NOTHING), age)
        return np.stack([samples.token, wait, np.where(cancels, NOTHING, self._size(samples.lots)), age], axis=1)

    def _size(self, lots: Ints) -> Ints:
        """The narrowest class that contains a size."""
        order = np.argsort(self.high_lots - self.low_lots, kind="stable")
        inside = (lots[:, None] >= self.low_lots[order]) & (lots[:, None] <= self.high_lots[order])
        nearest = np.abs(lots[:, None] - self.low_lots[order]).argmin(1)
        return np.asarray(order[np.where(inside.any(1), inside.argmax(1), nearest)])


def _is_cancel(token: Ints) -> Any:
    local = token % LOCAL
    return (local >= CANCEL_AT) & (local < TRADE_LESS)


def classes_of(days: Sequence[Samples]) -> Classes:
    """Classes of equal frequency; frequent sizes are separate classes. Raises CalibrationError without cancellations from which ages can be learnt."""
    wait = np.concatenate([one.wait_log_s for one in days])
    age = np.concatenate([one.age_log_s[~np.isnan(one.age_log_s)] for one in days])
    if not len(age):
        raise CalibrationError(
            "training window: expected cancellations of orders that arrived on the day, got none; give another window or day"
        )
    lots = np.concatenate([one.lots[one.lots > 0] for one in days])
    low, high = _size_classes(lots)
    return Classes(_edges(wait, WAITS), _edges(age, AGES - 1), low, high)


def shares(count: int) -> Floats:
    """[count + 1] probabilities from 0 to 1: equal steps, except that each of the last TAIL_CLASSES halves what is left above. Draws are uniform within
    a class, so wide classes of rare large values would have the wrong mean."""
    body = count - TAIL_CLASSES
    tail = 1.0 - 0.5 ** np.arange(1, TAIL_CLASSES + 1) / body
    return np.concatenate([np.arange(body) / body, tail, [1.0]]) if body > 0 else np.linspace(0.0, 1.0, count + 1)


def _edges(values: Floats, count: int) -> Floats:
    """[count + 1] ascending quantiles."""
    edges = np.quantile(values, shares(count))
    return np.maximum.accumulate(edges + 1e-9 * np.arange(count + 1))


def _size_classes(lots: Ints) -> tuple[Floats, Floats]:
    """(smallest, largest size) of SIZES classes."""
    sizes, counts = np.unique(lots, return_counts=True)
    common = np.argsort(-counts, kind="stable")[:ATOMS_MAX]
    atoms = sizes[common[counts[common] >= ATOM_SHARE * len(lots)]]
    rest = np.sort(lots[~np.isin(lots, atoms)])
    cuts = np.unique((shares(SIZES - len(atoms)) * len(rest)).astype(np.int64))
    parts = [rest[begin:end] for begin, end in pairwise(cuts)]
    ends = [(float(atom), float(atom)) for atom in atoms] + [(float(part[0]), float(part[-1])) for part in parts]
    ends += [ends[-1]] * (SIZES - len(ends))
    low, high = np.array(ends).T
    return low, high


def train(
    days: Sequence[Samples], tables: Numbers, seed: int, without: Sequence[int] = (), on_epoch: Callable[[], object] = lambda: None
) -> Trained:  # fmt: skip
    """Trains until the validation part has not improved for PATIENCE epochs. Each message is used twice, as it is and with the sides exchanged, so that
    neither side is preferred. without: inputs withheld from the network. The seed determines the result."""
    import torch

    classes = classes_of(days)
    parts = [_split(one, classes) for one in days]
    fit, held = _joined([part[0] for part in parts]), _joined([part[1] for part in parts])
    mean, deviation = fit[0].mean(0), fit[0].std(0)
    scale = np.where(deviation > 1e-6, 1.0 / np.maximum(deviation, 1e-6), 1.0).astype(np.float32)
    scale[list(without)] = 0.0
    with one_thread(torch, seed):
        found, nats = _fit(torch, fit, held, mean, scale, np.random.default_rng(seed), on_epoch)
    edges = {
        "wait_log_s": classes.wait_log_s, "age_log_s": classes.age_log_s, "size_low_lots": classes.low_lots, "size_high_lots": classes.high_lots,
    }  # fmt: skip
    return Trained({**found, **edges, **tables, "mean": mean, "inverse_deviation": scale}, nats)


Half = tuple[Any, Any]
"""(inputs, targets)."""


def _split(samples: Samples, classes: Classes) -> tuple[Half, Half]:
    """(training, validation) of a day, both as seen from either side."""
    plain = classes.targets(samples)
    other = plain.copy()
    other[:, 0] = mirrored(other[:, 0])
    cut = round(len(plain) * (1 - VALIDATION_SHARE))
    halves = []
    for rows in (slice(0, cut), slice(cut, None)):
        halves.append((np.concatenate(samples.inputs[:, rows]), np.concatenate([plain[rows], other[rows]])))
    return halves[0], halves[1]


def _joined(halves: Sequence[Half]) -> Half:
    """Joins the halves of all days."""
    return np.concatenate([one[0] for one in halves]), np.concatenate([one[1] for one in halves])


def _model(torch: Any) -> Any:
    nn = torch.nn
    model = nn.ModuleDict(
        {
            "first": nn.Linear(INPUTS, HIDDEN), "second": nn.Linear(HIDDEN, HIDDEN), "heads": nn.Linear(HIDDEN, OUTPUTS),
            "given": nn.Embedding(TOKENS, GIVEN),
        }
    )  # fmt: skip
    nn.init.zeros_(model["given"].weight)
    return model


def _losses(torch: Any, model: Any, inputs: Any, targets: Any, dropout: float) -> Any:
    """[4] mean negative log-likelihoods per message of token, wait, size and age."""
    functional = torch.nn.functional
    hidden = functional.dropout(functional.relu(model["first"](inputs)), dropout)
    hidden = functional.dropout(functional.relu(model["second"](hidden)), dropout)
    logits = model["heads"](hidden)
    given = logits[:, TOKENS:] + model["given"](targets[:, 0])
    parts = [logits[:, :TOKENS], *given.split([WAITS, SIZES, AGES], dim=1)]
    sums = [
        functional.cross_entropy(part, targets[:, place], ignore_index=NOTHING, reduction="sum")
        for place, part in enumerate(parts)
    ]
    return torch.stack(sums) / len(inputs)


def _fit(
    torch: Any, fit: Half, held: Half, mean: Any, scale: Any, random: np.random.Generator, on_epoch: Callable[[], object]
) -> tuple[Numbers, list[float]]:  # fmt: skip
    from serl.agents.torch_adam import Adam

    def tensors(half: Half) -> tuple[Any, Any]:
        inputs = np.clip((half[0] - mean) * scale, -INPUT_MAX, INPUT_MAX)
        return torch.from_numpy(inputs.astype(np.float32)), torch.from_numpy(half[1])

    (inputs, targets), (held_inputs, held_targets) = tensors(fit), tensors(held)
    model = _model(torch)
    optimiser = Adam(model.parameters(), LEARNING_RATE, weight_decay=WEIGHT_DECAY, decoupled_weight_decay=True)
    steps = EPOCHS_MAX * (len(inputs) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimiser, steps)

    @torch.no_grad()
    def held_nats() -> float:
        chunks = zip(held_inputs.split(8192), held_targets.split(8192), strict=True)
        total = sum(float(_losses(torch, model, one, other, 0.0).sum()) * len(one) for one, other in chunks)
        return total / len(held_inputs)

    nats = [held_nats()]
    best, found = float("inf"), _numbers(model)
    for _ in range(EPOCHS_MAX):
        order = torch.from_numpy(random.permutation(len(inputs)))
        for rows in order[: len(order) // BATCH * BATCH].split(BATCH):
            optimiser.zero_grad()
            _losses(torch, model, inputs[rows], targets[rows], DROPOUT).sum().backward()
            optimiser.step()
            schedule.step()
        nats.append(held_nats())
        on_epoch()
        if nats[-1] < best:
            best, found = nats[-1], _numbers(model)
        elif min(nats[-PATIENCE:]) > best:
            break
    return found, nats


def _numbers(model: Any) -> Numbers:
    layers = [model["first"], model["second"], model["heads"]]
    found = {}
    for number, layer in enumerate(layers, start=1):
        found[f"weights_{number}"] = layer.weight.detach().numpy().T.copy()
        found[f"bias_{number}"] = layer.bias.detach().numpy().copy()
    return found | {"given": model["given"].weight.detach().numpy().copy()}
