"""DEK, high level: a population of instructions, scored by the modules written under them; the model refines, mutates and crosses them."""

from collections.abc import Sequence

import numpy as np

from serl.researcher.llm.requests import Message
from serl.researcher.modules.contracts import Kind
from serl.researcher.outer import prompts
from serl.researcher.outer.author import Author
from serl.researcher.outer.records import Instruction, Verdict

ORIGINS = ("refined", "mutated", "crossed")


def rank_shares(n: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """(n,) selection probabilities by rank, best first: 1/rank, normalised. Ranks are used because scores may be negative."""
    weights = 1.0 / np.arange(1, n + 1)
    shares: np.ndarray[tuple[int], np.dtype[np.float64]] = weights / weights.sum()
    return shares


def ranked(instructions: Sequence[Instruction], kept: int) -> list[Instruction]:
    """The population: unscored instructions first, then by score, at most `kept`."""
    order = sorted(instructions, key=lambda one: (one.score_bps is not None, -(one.score_bps or 0.0), one.id))
    return order[:kept]


def choose(instructions: Sequence[Instruction], kept: int, rng: np.random.Generator) -> Instruction:
    """Select an instruction of the population by rank."""
    population = ranked(instructions, kept)
    return population[rng.choice(len(population), p=rank_shares(len(population)))]


def offspring(
    kind: Kind, instructions: Sequence[Instruction], kept: int, lines: Sequence[str], iteration: int, author: Author, rng: np.random.Generator
) -> tuple[list[Instruction], Verdict]:  # fmt: skip
    """Let the model write a new instruction: refined, mutated or crossed, in turn. `lines` are measurements for the prompt that refines."""
    scored = [one for one in instructions if one.score_bps is not None] or list(instructions)
    parents = [choose(scored, kept, rng)]
    others = [one for one in scored if one.id != parents[0].id]
    origin = ORIGINS[(iteration - 1) % len(ORIGINS)]
    if origin == "crossed" and others:
        parents.append(choose(others, kept, rng))
    elif origin == "crossed":
        origin = "mutated"  # there is no second parent
    text, verdict = author.generate_sentence(
        "instruction",
        kind,
        _request(origin, parents, lines),
        int(rng.integers(2**31)),
        {one.text for one in instructions},
    )
    made = [Instruction(kind, text, origin, tuple(one.id for one in parents))] if text else []
    return made, verdict


def _request(origin: str, parents: Sequence[Instruction], lines: Sequence[str]) -> tuple[Message, ...]:
    if origin == "refined":
        return prompts.refine_prompt(parents[0], lines)
    return prompts.mutate_prompt(parents[0]) if origin == "mutated" else prompts.cross_prompt(parents[0], parents[1])
