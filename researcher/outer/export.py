"""Export of a run's tuned model, for serving elsewhere."""

from pathlib import Path
from typing import Literal

from serl.researcher.llm.models import find
from serl.researcher.outer.errors import RunError
from serl.researcher.outer.low_level import settings_of, states
from serl.researcher.outer.run import TUNING, open_run

ExportFormat = Literal["peft", "merged"]


def export_run(folder: Path, format: ExportFormat, output: Path) -> int:
    """Write the tuned model of a run as of its last update: an adapter in peft's format, or the merged model for transformers.

    Returns the number of updates. RunError if there are none, or `output` is not empty; TuningError if the format cannot represent
    the tuned weights.
    """
    database, config = open_run(folder)
    database.close()
    if config.active_low_level is None:
        raise RunError(
            f"{folder}: expected a run that tunes weights, got one with the low level off; there is nothing to export"
        )
    saved = states(folder / TUNING)
    if not saved:
        raise RunError(f"{folder}: no update of the weights yet; let the run finish an iteration")
    if output.exists() and any(output.iterdir()):
        raise RunError(f"{output}: expected a new or empty folder, got files; use another --output")
    from serl.researcher.tuning.base import load_base
    from serl.researcher.tuning.export import export_merged, export_peft, require_fits_peft
    from serl.researcher.tuning.tuner import Tuner

    if format == "peft":
        require_fits_peft(config.active_low_level.tuning)  # fail before loading the model
    settings = settings_of(config.active_low_level, folder / TUNING)
    # a model that was tuned on a GPU can be exported where there is none
    tuner = Tuner(load_base(find(config.model)), settings.model_copy(update={"device": "cpu"}))
    tuner.resume(saved[-1])
    (export_peft if format == "peft" else export_merged)(tuner, output)
    return tuner.step
