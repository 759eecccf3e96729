"""What the minds of a run share, and what each of them counts."""

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from serl.minds.anonymous import Disguise
from serl.minds.config import MindsConfig
from serl.minds.forum import Forum
from serl.minds.market_view import Tape
from serl.minds.model_calls import ModelCalls


@dataclass
class RunState:
    """What all minds of a run share."""

    config: MindsConfig
    symbols: Sequence[str]
    disguise: Disguise
    forum: Forum
    tapes: dict[str, Tape]
    calls: ModelCalls
    say: Callable[[str], None]
    """Shows the user one line."""
    log: Callable[[dict[str, object]], None]
    """Records each decision as a row."""


@dataclass
class MindCounts:
    """Counts of what a mind did."""

    decisions: int = 0
    valid: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    orders: int = 0
    rejected: Counter[str] = field(default_factory=Counter)
    """Orders that the exchange rejected, by its reason."""
    posts: int = 0
    reflections: int = 0
    events: int = 0
    contradictions: int = 0
