"""Ablations: the table that `python -m benchmarks.proof` left, for the report of a run."""

from pathlib import Path

from pydantic import BaseModel, TypeAdapter, ValidationError

from serl.researcher.outer.errors import RunError

FILE = "proof.json"
Interval = tuple[float, float, float]
"""Mean, and both ends of its 95 % interval over seeds."""


class Ablation(BaseModel):
    """A way to propose, over its seeds."""

    way: str
    seeds: int
    scored: int
    """Seeds that ended with a score."""
    validation: Interval | None
    """PA of the best candidate, in bps."""
    test: Interval | None
    """PA of that candidate on the test part, in bps."""
    valid_first: Interval | None
    """Share of modules that were valid at once, by the model before tuning ..."""
    valid_last: Interval | None
    """... and by the last one."""
    hours: float
    """Of all seeds."""


def read_ablations(folder: Path) -> list[Ablation]:
    """The rows of FOLDER/proof.json; RunError if there is none that can be read."""
    path = folder / FILE
    try:
        return TypeAdapter(list[Ablation]).validate_json(path.read_bytes())
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read ({error.strerror}); `python -m benchmarks.proof --output {folder}` writes it"
        ) from None
    except ValidationError as error:
        raise RunError(
            f"{path}: the table of `python -m benchmarks.proof` is due, got: {error.errors()[0]['msg']}"
        ) from None


def shown(one: Ablation) -> dict[str, str]:
    """A row in words, by column."""
    return {
        "way": one.way, "seeds with a score": f"{one.scored} of {one.seeds}",
        "best on validation, bps": _interval(one.validation), "its test, bps": _interval(one.test),
        "valid, untuned": _share(one.valid_first), "valid, last": _share(one.valid_last), "hours": f"{one.hours:.2f}",
    }  # fmt: skip


def _interval(found: Interval | None) -> str:
    return "none" if found is None else "{:+.2f} [{:+.2f}, {:+.2f}]".format(*found)


def _share(found: Interval | None) -> str:
    return "none" if found is None else f"{found[0]:.0%}"
