"""Measurements as lines of a prompt: the best candidate, past modules by their difference to the incumbent, behaviour, learning curves, the market."""

from collections.abc import Mapping, Sequence
from typing import Any

from serl.researcher.candidates import Result, Score
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer.past_results import PastResults
from serl.researcher.outer.records import EvaluatedCandidate
from serl.researcher.signals import Signals, surest

TEXT_CHARS_MAX = 1500
"""Longest past module that a prompt includes."""
CURVE_POINTS = 5
ACTIONS = ("crossed", "rested", "offset")
"""Names of the actions of mode `hybrid`."""


def score_text(score: Score) -> str:
    """A score and its components as text."""
    return (
        f"PA {score.pa_bps:+.2f} bps (95 % between {score.low_bps:+.2f} and {score.high_bps:+.2f}), {score.unfilled:.0%} of the order left "
        f"to the end, impact {score.impact_bps:.2f} bps, standard deviation {score.pa_std_bps:.1f} bps"
    )


def module_text(kind: Kind, one: EvaluatedCandidate) -> str:
    """A candidate's module; specifications are on one line. `default` if the candidate has none, empty if the module is too long."""
    module = one.candidate.modules.get(kind)
    if module is None:
        return "default"
    return module.text.strip() if len(module.text) <= TEXT_CHARS_MAX else ""


def past_lines(past: PastResults, kind: Kind, count: int) -> list[str]:
    """The `count` best and as many worst different modules of a kind, each with its best candidate's difference to the incumbent."""
    seen: dict[str, EvaluatedCandidate] = {}
    own = module_text(kind, past.best) if past.best else ""
    for one in past.scored:
        text = module_text(kind, one)
        if text and text != own:
            seen.setdefault(text, one)
    kept = list(seen.items())
    shown = kept[:count] + kept[count:][-count:] if count else []
    return [f"{text} -> {past.difference(one) or score_text_of(one)}" for text, one in shown]


def score_text_of(one: EvaluatedCandidate) -> str:
    """A candidate's score as text."""
    return score_text(one.result.score) if one.result.score else "no score"


def behaviour_lines(score: Score) -> list[str]:
    """Actions, lateness and PA by group of orders; empty for scores that lack them."""
    found = score.behaviour
    lines = []
    actions = [_action_text(index, found) for index in range(len(ACTIONS)) if f"action_{index}_p50" in found]
    if actions:
        lines.append(f"Actions (10th, 50th, 90th percentile): {', '.join(actions)}")
    if "lateness" in found:
        lines.append(
            f"Behind an even schedule by {found['lateness']:+.0%} of the order on average; {found['traded_last']:.0%} traded in the last step"
        )
    groups = [f"{name[3:].replace('_', ' ')} {value:+.2f}" for name, value in found.items() if name.startswith("pa_")]
    if groups:
        lines.append(f"PA in bps by orders: {', '.join(groups)}")
    return lines


def _action_text(index: int, found: Mapping[str, float]) -> str:
    low, middle, high = (found[f"action_{index}_p{q}"] for q in (10, 50, 90))
    return f"{ACTIONS[index]} {low:.2g} {middle:.2g} {high:.2g}"


def curve_line(result: Result) -> str:
    """The learning curve of a training on one line; empty without one. A sandboxed job reported it, so it may be anything."""
    claims = result.facts.get("claims")
    curve = claims.get("curve") if isinstance(claims, Mapping) else None
    points = [one for one in curve if _is_point(one)] if isinstance(curve, Sequence) else []
    if len(points) < 2:
        return ""
    places = sorted({round(index * (len(points) - 1) / (CURVE_POINTS - 1)) for index in range(CURVE_POINTS)})
    shown = ", ".join(f"{points[place]['return']:+.2f} at {points[place]['steps']:.0f}" for place in places)
    return f"Return while training, by step: {shown}"


def _is_point(one: Any) -> bool:
    return isinstance(one, Mapping) and all(isinstance(one.get(name), int | float) for name in ("steps", "return"))


def signal_lines(signals: Signals) -> list[str]:
    """The signals that predict the price on training days, largest |t| first."""
    return [
        f"{name}: one standard deviation more, {one.gain_bps:+.2f} bps (t {one.t:+.1f})"
        for name, one in surest(signals)
    ]


def market_lines(facts: Mapping[str, float] | None) -> list[str]:
    """The market's statistics on training days; empty if they are not known."""
    return [", ".join(f"{name} {value:.3g}" for name, value in facts.items())] if facts else []
