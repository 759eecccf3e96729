"""The table of `python -m benchmarks.proof`, for the report of a run."""

import json
from pathlib import Path

from pydantic import AliasChoices, BaseModel, Field, TypeAdapter, ValidationError

from serl.researcher.outer.errors import RunError

FILE = "proof.json"
Interval = tuple[float, float, float]
"""Mean and 95 % interval (low, high) over seeds."""


class Ablation(BaseModel):
    """What one method found, pooled over tasks and seeds. Tables of earlier versions have no differences."""

    variant: str = Field(validation_alias=AliasChoices("variant", "way"))
    """The method; older tables say `way`."""
    seeds: int
    test: Interval | None
    """PA of its best candidates on days that no run has seen, in bps."""
    difference: Interval | None = None
    """PA of the first method minus its own, paired by seed, in bps."""
    p_holm: float | None = None
    """p-value of that difference being 0 or less, corrected for the number of differences (Holm)."""


def read_ablations(folder: Path) -> list[Ablation]:
    """Read FOLDER/proof.json; RunError if it is missing or invalid."""
    path = folder / FILE
    try:
        found = json.loads(path.read_bytes())
        return TypeAdapter(list[Ablation]).validate_python(found["rows"] if isinstance(found, dict) else found)
    except OSError as error:
        raise RunError(
            f"{path}: cannot be read ({error.strerror}); run: python -m benchmarks.proof --output {folder}"
        ) from None
    except (ValueError, KeyError) as error:
        text = error.errors()[0]["msg"] if isinstance(error, ValidationError) else str(error)
        raise RunError(f"{path}: expected the table of `python -m benchmarks.proof`, got: {text}") from None


def table_row(one: Ablation) -> dict[str, str]:
    """A row of the table as text, by column."""
    return {
        "method": one.variant, "seeds": str(one.seeds), "PA on fresh days, bps": _interval(one.test),
        "the first minus it, bps": _interval(one.difference), "p (Holm)": "" if one.p_holm is None else f"{one.p_holm:.4f}",
    }  # fmt: skip


def _interval(found: Interval | None) -> str:
    return "" if found is None else "{:+.2f} [{:+.2f}, {:+.2f}]".format(*found)
