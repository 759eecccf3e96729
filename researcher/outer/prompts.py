"""Prompts: the macro prompt (task, market, past scores) and the micro prompt (contract and goal of one kind of module).

The texts are part of the experiment: a change invalidates recorded calls (`--offline`) and the results in docs/results.md.
"""

import inspect
from collections.abc import Sequence

from serl.researcher.candidates import Budget, Score
from serl.researcher.inner.settings import Settings
from serl.researcher.llm.requests import Message
from serl.researcher.modules import contracts, specs
from serl.researcher.modules.build import RULE_NAMES
from serl.researcher.modules.contracts import SIGNATURES, Form, Kind, form_of
from serl.researcher.modules.example import example
from serl.researcher.outer.records import EvaluatedCandidate, Instruction

TEXT_CHARS_MAX = 1500
"""Longest past module that a prompt includes."""

GOALS = {
    Kind.REWARD: "the reward that the execution policy learns from at each step",
    Kind.AGENT: "the neural network of the execution policy and its value",
    Kind.IMAGINE: "imagined market scenarios, half of every training batch in the static market",
    Kind.PROFILES: "the population of traders in the dynamic training market",
    Kind.COMMUNICATE: "the messages that execution agents who share an order send each other",
    Kind.POLICY: "the rule by which an order is executed: what crosses the book now, what rests, and where",
    Kind.LEARNER: "the settings of the learner: its rates, its horizon, how it explores and when it stops",
    Kind.INTERFACE: "what the execution policy may do and what it observes",
}
INITIAL = {
    Kind.REWARD: (
        "Pay for prices better than the market's VWAP, and make inventory left to the end costly.",
        "Keep the signal dense: reward each fill against the arrival price and punish falling behind or trading too much of the volume.",
    ),
    Kind.AGENT: (
        "Choose a small network that learns quickly from few steps.",
        "Choose a wider network with normalisation, so that learning stays stable.",
    ),
    Kind.IMAGINE: (
        "Stay close to history, so that what is learned holds on real days.",
        "Vary volatility and volume more than history did, so that the policy is robust.",
    ),
    Kind.PROFILES: (
        "Build a liquid market in which large orders have a realistic impact.",
        "Mix informed and institutional traders with market makers, so that impatience is punished.",
    ),
    Kind.COMMUNICATE: (
        "Tell the others how much is left and how far behind schedule you are.",
        "Send few, strong signals, so that agents do not compete for the same liquidity.",
    ),
    Kind.POLICY: (
        "Rest most of the order and cross the book only with what is late.",
        "Cross more when the price moves against the order, and wait when it moves in its favour.",
    ),
    Kind.LEARNER: (
        "Stay near the default settings, and let the critic learn faster than the actor.",
        "Learn cautiously: small rates, few epochs, and stop before the policy fits noise.",
    ),
    Kind.INTERFACE: (
        "Rest at limit prices near the touch, and observe the book and recent returns.",
        "Observe little, so that what is learned holds on other days.",
    ),
}
"""The initial instructions of a run."""

_SHOWN: dict[Kind, list[type]] = {Kind.REWARD: [contracts.RewardInputs], Kind.PROFILES: [contracts.MarketStatistics]}
"""Classes whose source a prompt for code includes."""


def score_text(score: Score) -> str:
    """A score and its components as text."""
    return (
        f"PA {score.pa_bps:+.2f} bps (95 % between {score.low_bps:+.2f} and {score.high_bps:+.2f}), {score.unfilled:.0%} of the order left "
        f"to the end, impact {score.impact_bps:.2f} bps, standard deviation {score.pa_std_bps:.1f} bps"
    )


def market_text(settings: Settings, budget: Budget) -> str:
    """The training markets and the scoring as text."""
    then = f", then in a {settings.dynamic.kind} one," if budget.dynamic_steps else ""
    where = "in bars of a minute that it has not seen" if settings.scored_in == "bars" else "on a simulated exchange"
    return f"A policy learns {'first ' if then else ''}in a {settings.market.kind} market{then} and is scored by {settings.orders} orders {where}."


def score_lines(best: Sequence[EvaluatedCandidate], worst: Sequence[EvaluatedCandidate]) -> list[str]:
    """The scores of past candidates, one line each."""
    labelled = [("Best so far", trial) for trial in best] + [("Poor", trial) for trial in worst]
    return [f"{name}: {score_text(trial.result.score)}." for name, trial in labelled if trial.result.score]


def macro_prompt(settings: Settings, budget: Budget, lines: Sequence[str]) -> str:
    """The macro prompt: task, market, past scores."""
    known = "\n".join(f"- {line}" for line in lines)
    return (
        "You design reinforcement-learning algorithms that execute large orders. The score is the price advantage (PA, in bps) over the "
        f"market's VWAP: higher is better, and it may be negative. {market_text(settings, budget)}"
        + (f"\nLearnt so far:\n{known}" if known else "")
    )


def micro_prompt(kind: Kind, form: Form, instruction: str, lines: Sequence[str]) -> str:
    """The micro prompt: goal and contract of a module, past attempts with scores, and the instruction to follow."""
    form = form_of(kind, form)
    known = "\n".join(f"- {line}" for line in lines)
    return "\n".join(
        part
        for part in (
            f"Design {GOALS[kind]}.",
            _contract(kind, form),
            f"Past attempts:\n{known}" if known else "",
            f"Instruction: {instruction}",
            "Answer with the JSON object alone." if form == "spec" else "Answer with one ```python block alone.",
        )
        if part
    )


def instruction_lines(kind: Kind, instructions: Sequence[Instruction], n: int) -> list[str]:
    """The n best and n worst past instructions with their scores, for in-context learning."""
    scored = sorted((one for one in instructions if one.score_bps is not None), key=lambda one: -(one.score_bps or 0.0))
    shown = scored[:n] + [one for one in scored[n:][-n:] if n]
    return [f"'{one.text}' scored {one.score_bps:+.2f} bps" for one in shown]


def module_lines(kind: Kind, trial: EvaluatedCandidate, name: str) -> list[str]:
    """The module of a past candidate with its score; empty if the candidate used the default."""
    module, score = trial.candidate.modules.get(kind), trial.result.score
    if module is None or score is None or len(module.text) > TEXT_CHARS_MAX:
        return []
    return [f"{name}: {module.text.strip()} -> {score_text(score)}"]


def repair_message(errors: str, form: Form) -> Message:
    """The message that sends errors of an answer back."""
    what = "JSON object" if form == "spec" else "module in one ```python block"
    return {"role": "user", "content": f"That is not valid:\n{errors}\nAnswer with the whole corrected {what} alone."}


def conversation(macro_text: str, micro_text: str) -> tuple[Message, ...]:
    """Both prompts as messages."""
    return ({"role": "system", "content": macro_text}, {"role": "user", "content": micro_text})


def _contract(kind: Kind, form: Form) -> str:
    if form == "spec":
        return f"It is a JSON specification: {specs.SPECS[kind].__doc__} Example:\n{example(kind, 'spec').strip()}"
    name, parameters = SIGNATURES[kind]
    shown = "\n".join(inspect.getsource(one) for one in _SHOWN.get(kind, []))
    if kind is Kind.POLICY:
        shown = f"Fields of now: {', '.join(RULE_NAMES)}.\n"
    head = f"It is Python: define {name}({', '.join(parameters)}). Give a whole module, with its imports: only numpy, torch, math, dataclasses, typing and the contracts."
    return f"{head}\n{shown}Example:\n```python\n{example(kind, 'code').strip()}\n```"


def refine_prompt(one: Instruction, lines: Sequence[str]) -> tuple[Message, ...]:
    """Ask for a better instruction, given the score of the old one."""
    known = "\n".join(f"- {line}" for line in lines)
    score = "not been tried" if one.score_bps is None else f"scored {one.score_bps:+.2f} bps on average"
    return _about(one.kind, f"This instruction has {score}: '{one.text}'\nMeasured:\n{known}\nRewrite it so that the next design scores higher.")  # fmt: skip


def mutate_prompt(one: Instruction) -> tuple[Message, ...]:
    """Ask for a variation of an instruction."""
    return _about(one.kind, f"Write a new instruction that differs from this one in one important point: '{one.text}'")


def cross_prompt(one: Instruction, other: Instruction) -> tuple[Message, ...]:
    """Ask for a combination of two instructions."""
    return _about(one.kind, f"Combine the strengths of these two instructions into one: '{one.text}' and '{other.text}'")  # fmt: skip


def _about(kind: Kind, text: str) -> tuple[Message, ...]:
    system = f"You improve instructions for an engineer who designs {GOALS[kind]}; the score is a price advantage in bps, higher is better."
    return (
        {"role": "system", "content": system},
        {"role": "user", "content": f"{text}\nAnswer with the instruction alone, in at most 40 words."},
    )
