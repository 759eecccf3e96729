"""The layered memory of a mind, after FinMem (arXiv 2311.13743) and Generative Agents (arXiv 2304.03442).

A memory m of layer l, age δ (in decisions), importance v from 0 to 100, is retrieved for a query q by its score

    γ(m) = exp(-δ / Q_l)  +  cos(q, m)  +  v · α_l^δ / 100
           recency           relevance     importance

the sum of three terms between 0 and 1, each with weight 1 as in both papers; Q_l and α_l are settings of the layer (FinMem: 14, 90, 365 and
0.9, 0.967, 0.988). Relevance is the cosine of word counts, so that no second model is needed for embeddings.

A memory in the prompt of a decision with an order gains importance. Once it reaches `promote_at`, it moves to the next layer, where its age starts
at 0 again. A memory is forgotten when its recency or its importance has faded, or when its layer is full and its score is the lowest.
"""

import math
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

from serl.minds.config import LayerConfig, MemoryConfig

Layer = Literal["working", "short", "long"]
LAYERS: tuple[Layer, ...] = ("working", "short", "long")
IMPORTANCE_MAX = 100.0
RECENCY_MIN, IMPORTANCE_MIN = 0.05, 5.0
"""A memory below either value is forgotten (FinMem's thresholds)."""
USED_BONUS = 5.0
"""Importance that a memory gains when a decision with an order has used it (FinMem)."""
_WORD = re.compile(r"[A-Za-z][A-Za-z0-9]+")


def word_counts(text: str) -> Counter[str]:
    """How often each word of a text occurs, in lower case."""
    return Counter(word.lower() for word in _WORD.findall(text))


def cosine(one: Counter[str], other: Counter[str]) -> float:
    """Cosine of two word counts; 0 if either is empty."""
    product = sum(count * other[word] for word, count in one.items())
    lengths = math.sqrt(sum(n * n for n in one.values()) * sum(n * n for n in other.values()))
    return product / lengths if lengths else 0.0


@dataclass
class MemoryItem:
    """One memory. `importance` is its value at `decision`, the number of the decision from which its age counts."""

    text: str
    importance: float
    decision: int
    layer: Layer
    words: Counter[str] = field(default_factory=Counter)


class Memory:
    """The memories of one mind."""

    def __init__(self, config: MemoryConfig) -> None:
        self._config = config
        self.items: list[MemoryItem] = []

    def layer_config(self, layer: Layer) -> LayerConfig:
        """The settings of a layer."""
        config: LayerConfig = getattr(self._config, layer)
        return config

    def add(self, layer: Layer, text: str, importance: float, decision: int) -> None:
        """Remembers a text from decision number `decision` on."""
        bounded = min(max(importance, 0.0), IMPORTANCE_MAX)
        self.items.append(MemoryItem(text, bounded, decision, layer, word_counts(text)))

    def recency(self, item: MemoryItem, decision: int) -> float:
        """exp(-δ / Q)."""
        return math.exp(-(decision - item.decision) / self.layer_config(item.layer).stability)

    def importance(self, item: MemoryItem, decision: int) -> float:
        """v · α^δ."""
        return item.importance * self.layer_config(item.layer).importance_decay ** (decision - item.decision)

    def score(self, item: MemoryItem, query: Counter[str], decision: int) -> float:
        """γ of the module's docstring."""
        faded = self.importance(item, decision) / IMPORTANCE_MAX
        return self.recency(item, decision) + cosine(query, item.words) + faded

    def retrieve(self, query: str, decision: int) -> list[MemoryItem]:
        """The `top_k` memories with the highest scores of each layer, best first; the long layer comes first."""
        words = word_counts(query)
        found = []
        for layer in reversed(LAYERS):
            items = [item for item in self.items if item.layer == layer]
            items.sort(key=lambda item: self.score(item, words, decision), reverse=True)
            found += items[: self._config.top_k]
        return found

    def reinforce(self, items: list[MemoryItem], decision: int) -> None:
        """Increases the importance of memories that a decision with an order used, and promotes those that reach `promote_at`."""
        for item in items:
            item.importance = min(self.importance(item, decision) + USED_BONUS, IMPORTANCE_MAX)
            promote_at = self.layer_config(item.layer).promote_at
            # importance is now that at this decision; recency restarts here too, as after an access in Generative Agents
            item.decision = decision
            if promote_at is not None and item.importance >= promote_at and item.layer != "long":
                item.layer = LAYERS[LAYERS.index(item.layer) + 1]

    def forget(self, decision: int) -> int:
        """Removes memories that have faded, and those with the lowest scores in layers that are too full. Returns the number removed."""
        before = len(self.items)
        self.items = [
            item
            for item in self.items
            if self.recency(item, decision) >= RECENCY_MIN and self.importance(item, decision) >= IMPORTANCE_MIN
        ]
        for layer in LAYERS:
            items = [item for item in self.items if item.layer == layer]
            excess = len(items) - self.layer_config(layer).size_max
            if excess > 0:
                items.sort(key=lambda item: self.score(item, Counter(), decision))
                dropped = {id(item) for item in items[:excess]}
                self.items = [item for item in self.items if id(item) not in dropped]
        return before - len(self.items)
