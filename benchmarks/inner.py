"""The inner loop: seconds of one candidate at the full budget (200,000 static and 20,000 dynamic steps, a score of 24 orders), from the examples
as specifications and as code (in the sandbox), one at a time, on a generated day. `inner_course_s` is the time to make the scoring set, once per process."""

import tempfile
import time
from pathlib import Path

from serl.history.day import write_day
from serl.history.generate import generate_day
from serl.researcher.candidates import Budget, Candidate, Module
from serl.researcher.inner.evaluate import evaluate
from serl.researcher.inner.score import scoring_set
from serl.researcher.inner.settings import DYNAMIC, STATIC, Settings
from serl.researcher.modules.contracts import Form, Kind
from serl.researcher.modules.example import example

KINDS = (Kind.REWARD, Kind.AGENT, Kind.IMAGINE, Kind.PROFILES)
FORMS: tuple[Form, ...] = ("spec", "code")


def figures() -> dict[str, float]:
    """Seconds."""
    found: dict[str, float] = {}
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_day(generate_day(3), folder / "demo.day")
        settings = Settings(
            market=STATIC.model_copy(update={"data": [folder / "demo.day"]}),
            dynamic=DYNAMIC.model_copy(update={"environments": STATIC.environments}), day=folder / "demo.day",
        )  # fmt: skip
        began = time.perf_counter()
        scoring_set(settings)
        found["inner_course_s"] = time.perf_counter() - began
        for form in FORMS:
            candidate = Candidate({kind: Module(form, example(kind, form)) for kind in KINDS})
            began = time.perf_counter()
            result = evaluate(candidate, settings, Budget(), folder / form)
            assert result.stage == "done", result.reason
            found[f"inner_{form}_candidate_s"] = time.perf_counter() - began
            found |= {f"inner_{form}_{stage}": result.facts[stage] for stage in ("training_s", "scoring_s")}
    return found
