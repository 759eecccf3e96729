"""Conclusions from the scores of a forecaster, in sentences."""

from serl.agents.signals.evaluation import BRIER, EXPLAINED, F1, FILL, TREND, VOLUME, Difference, Evaluation
from serl.agents.signals.forecaster import BASELINES


def conclusions(found: Evaluation) -> list[str]:
    """The conclusions from the scores of the chosen models, in sentences."""
    return [
        said
        for horizon in range(len(found.forecaster.horizons_s))
        for said in (_of_trend(found, horizon), _of_others(found, horizon))
    ]


def _of_trend(found: Evaluation, horizon: int) -> str:
    model, scores = found.forecaster.model, found.of(TREND)
    best = max(BASELINES, key=lambda name: scores[horizon, name].values[F1])
    closest = min(BASELINES, key=lambda name: scores[horizon, name].values[BRIER])
    f1 = found.difference(TREND, horizon, model, best, F1)
    brier = found.difference(TREND, horizon, model, closest, BRIER)
    return (
        f"{found.forecaster.horizons_s[horizon]:g} s: macro F1 of the {model} forecast {_verdict(f1.low > 0, f1.high < 0)} that of {best} "
        f"({_text(f1)}), its Brier score {_verdict(brier.high < 0, brier.low > 0)} that of {closest} ({_text(brier, 4)})."
    )


def _of_others(found: Evaluation, horizon: int) -> str:
    fills, volumes = found.of(FILL), found.of(VOLUME)
    closest = min(FILL.baselines, key=lambda name: fills[horizon, name].values[BRIER])
    brier = found.difference(FILL, horizon, FILL.models[0], closest, BRIER)
    best = max(VOLUME.baselines, key=lambda name: volumes[horizon, name].values[EXPLAINED])
    explained = found.difference(VOLUME, horizon, VOLUME.models[0], best, EXPLAINED)
    return (
        f"{found.forecaster.horizons_s[horizon]:g} s: the Brier score of the fill forecast {_verdict(brier.high < 0, brier.low > 0)} that of "
        f"{closest} ({_text(brier, 4)}); the volume forecast explains {_more(explained)} {best} ({_text(explained)} of the deviance)."
    )


def _text(found: Difference, digits: int = 3) -> str:
    return f"{found.value:+.{digits}f} [{found.low:+.{digits}f}, {found.high:+.{digits}f}]"


def _verdict(better: bool, worse: bool) -> str:
    return "is better than" if better else "is worse than" if worse else "does not differ clearly from"


def _more(found: Difference) -> str:
    return "more than" if found.low > 0 else "less than" if found.high < 0 else "not clearly more or less than"
