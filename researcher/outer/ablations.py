"""Ablations: the table of `python -m benchmarks.proof`, for the report of a run."""

from pathlib import Path

from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, ValidationError

from serl.researcher.outer.errors import RunError

FILE = "proof.json"
Interval = tuple[float, float, float]
"""Mean and 95 % interval (low, high) over seeds."""


class Ablation(BaseModel):
    """Results of one variant of the researcher, aggregated over seeds."""

    variant: str = Field(validation_alias=AliasChoices("variant", "way"))
    """Tables written by earlier versions say `way`."""
    seeds: int
    scored: int
    """Number of seeds that ended with a score."""
    validation: Interval | None
    """PA of the best candidate, in bps."""
    test: Interval | None
    """PA of that candidate on the test part, in bps."""
    valid_first: Interval | None
    """Share of modules valid at the first answer, by the untuned model."""
    valid_last: Interval | None
    """The same, by the last model of the run."""
    hours: float
    """Total hours of all seeds."""


def read_ablations(folder: Path) -> list[Ablation]:
    """Read FOLDER/proof.json; RunError if it is missing or invalid."""
    path = folder / FILE
    try:
        return TypeAdapter(list[Ablation]).validate_json(path.read_bytes())
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read ({error.strerror}); run: python -m benchmarks.proof --output {folder}"
        ) from None
    except ValidationError as error:
        raise RunError(
            f"{path}: expected the table of `python -m benchmarks.proof`, got: {error.errors()[0]['msg']}"
        ) from None


def table_row(one: Ablation) -> dict[str, str]:
    """A row of the table as text, by column."""
    return {
        "variant": one.variant, "seeds with a score": f"{one.scored} of {one.seeds}",
        "best on validation, bps": _interval(one.validation), "its test, bps": _interval(one.test),
        "valid, untuned": _share(one.valid_first), "valid, last": _share(one.valid_last), "hours": f"{one.hours:.2f}",
    }  # fmt: skip


def _interval(found: Interval | None) -> str:
    return "none" if found is None else "{:+.2f} [{:+.2f}, {:+.2f}]".format(*found)


def _share(found: Interval | None) -> str:
    return "none" if found is None else f"{found[0]:.0%}"
