"""Prompts: the macro prompt (task, market, past scores) and the micro prompt (contract and goal of one kind of module).

The texts are part of the experiment: a change invalidates recorded calls (`--offline`) and the results in docs/results.md.
"""

import inspect
from collections.abc import Callable, Sequence
from typing import NamedTuple

from serl.agents.learning.rule import STEPS_LEFT
from serl.researcher.candidates import Budget
from serl.researcher.inner.settings import Settings
from serl.researcher.llm.edits import FORMAT
from serl.researcher.llm.requests import Message
from serl.researcher.llm.usage import estimate_prompt_tokens
from serl.researcher.modules import contracts, specs
from serl.researcher.modules.contracts import SIGNATURES, Form, Kind, form_of
from serl.researcher.modules.example import example
from serl.researcher.outer.records import Instruction
from serl.researcher.outer.schema_text import schema_text

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

SHORT_TASK = "You design algorithms that execute large orders; the score is the price advantage (PA) in bps, and higher is better."
"""The task in a prompt for a tiny model."""

_SHOWN: dict[Kind, list[type]] = {Kind.REWARD: [contracts.RewardInputs], Kind.PROFILES: [contracts.MarketStatistics]}
"""Classes whose source is part of a prompt for code, docstrings included."""


class Section(NamedTuple):
    """Lines of a prompt under a title. If a prompt is too long, sections lose their last lines, starting with the section of the lowest `rank`."""

    title: str
    lines: Sequence[str]
    rank: int

    @property
    def text(self) -> str:
        """The lines under the title; empty without lines."""
        return "\n".join((self.title, *(f"- {line}" for line in self.lines))) if self.lines else ""


def market_text(settings: Settings, budget: Budget) -> str:
    """The training markets and the scoring as text."""
    then = f", then in a {settings.dynamic.kind} one," if budget.dynamic_steps else ""
    where = "in bars of a minute that it has not seen" if settings.scored_in == "bars" else "on a simulated exchange"
    return f"A policy learns {'first ' if then else ''}in a {settings.market.kind} market{then} and is scored by {settings.orders} orders {where}."


def macro_prompt(settings: Settings, budget: Budget) -> str:
    """The macro prompt: task and market."""
    return (
        "You design reinforcement-learning algorithms that execute large orders. The score is the price advantage (PA, in bps) over the "
        f"market's VWAP: higher is better, and it may be negative. {market_text(settings, budget)}"
    )


def conversation(
    macro: str,
    kind: Kind,
    form: Form,
    sections: Sequence[Section],
    instruction: str,
    tokens: int,
    *,
    edits: bool = False,
) -> tuple[Message, ...]:
    """The prompt for a module: the macro prompt; then goal and contract, what is known, the instruction, and the form of the answer.

    What is known is cut until the estimated length of the whole is at most `tokens`; the other parts are never cut.
    """
    form = form_of(kind, form)
    return _fitted(sections, tokens, lambda rest: _messages(macro, kind, form, rest, instruction, edits))


def short_conversation(
    kind: Kind, parents: Sequence[Section], sections: Sequence[Section], instruction: str, tokens: int
) -> tuple[Message, ...]:
    """The prompt for a specification by a tiny model, without the contract, because a grammar enforces the schema. It is cut as in `conversation`,
    except the parents, which the instruction is about."""

    def messages(rest: Sequence[Section]) -> tuple[Message, ...]:
        known = [section.text for section in (*parents, *rest)]
        return _asked(SHORT_TASK, kind, known, instruction, _answer_format("spec", False))

    return _fitted(sections, tokens, messages)


def _fitted(
    sections: Sequence[Section], tokens: int, write: Callable[[Sequence[Section]], tuple[Message, ...]]
) -> tuple[Message, ...]:
    """The messages, with as much of the sections as `tokens` allow."""
    rest = list(sections)
    while True:
        messages = write(rest)
        cuttable = [place for place, section in enumerate(rest) if section.lines]
        if estimate_prompt_tokens({"messages": messages}) <= tokens or not cuttable:
            return messages
        place = min(cuttable, key=lambda place: rest[place].rank)
        rest[place] = rest[place]._replace(lines=rest[place].lines[:-1])


def _messages(macro: str, kind: Kind, form: Form, sections: Sequence[Section], instruction: str, edits: bool) -> tuple[Message, ...]:  # fmt: skip
    known = [contract_text(kind, form), *(section.text for section in sections)]
    return _asked(macro, kind, known, instruction, _answer_format(form, edits))


def _asked(macro: str, kind: Kind, known: Sequence[str], instruction: str, answer: str) -> tuple[Message, ...]:
    parts = (f"Design {GOALS[kind]}.", *known, f"Instruction: {instruction}", answer)
    return (
        {"role": "system", "content": macro},
        {"role": "user", "content": "\n".join(part for part in parts if part)},
    )


def _answer_format(form: Form, edits: bool) -> str:
    if edits:
        return f"Answer with edits of the module alone, each in this form:\n{FORMAT}"
    return "Answer with the JSON object alone." if form == "spec" else "Answer with one ```python block alone."


def instruction_lines(kind: Kind, instructions: Sequence[Instruction], n: int) -> list[str]:
    """The n best and n worst past instructions with their scores, for in-context learning."""
    scored = sorted((one for one in instructions if one.score_bps is not None), key=lambda one: -(one.score_bps or 0.0))
    shown = scored[:n] + [one for one in scored[n:][-n:] if n]
    return [f"'{one.text}' scored {one.score_bps:+.2f} bps" for one in shown]


def repair_message(errors: str, form: Form, *, edits: bool = False) -> Message:
    """The message that sends the errors of an answer back to the model."""
    what = "JSON object" if form == "spec" else "module in one ```python block"
    again = "all edits, corrected; they apply to the module as first shown," if edits else f"the whole corrected {what}"
    return {"role": "user", "content": f"That is not valid:\n{errors}\nAnswer with {again} alone."}


def contract_text(kind: Kind, form: Form) -> str:
    """The contract of a kind: for a specification its fields, for code its function; with an example."""
    if form == "spec":
        about = " ".join((specs.SPECS[kind].__doc__ or "").split())
        return f"It is a JSON specification: {about} Its fields and their choices:\n{schema_text(kind)}\nExample:\n{example(kind, 'spec').strip()}"
    name, parameters = SIGNATURES[kind]
    shown = "\n".join(inspect.getsource(one) for one in _SHOWN.get(kind, []))
    if kind is Kind.POLICY:
        shown = f"now also has {STEPS_LEFT}: decisions left, this one included.\n"
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
