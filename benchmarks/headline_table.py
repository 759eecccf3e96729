"""The tables of `python -m benchmarks.headline`: seeds pooled, as JSON rows and as Markdown."""

from typing import Any

import numpy as np

from serl.agents.learning.evaluation import CONFIDENCE, Evaluation, Row, bootstrap_clusters, bootstrap_estimates
from serl.agents.realism.distances import CLUSTERS_MIN

COLUMNS = ("PA", "PA_mid", "PA_rule", "PA_twap", "PA-std", "WR", "GLR", "AFI", "IS")
WITH_INTERVAL = COLUMNS[:4]


def rows_of(evaluation: Evaluation, methods: list[str], episodes: Any, dates: Any) -> list[dict[str, Any]]:
    """JSON rows: the seeds of a method pooled. methods: of the rows after TWAP and the rule. Measures are [value, low, high], with fewer than
    CLUSTERS_MIN clusters [value]."""
    clusters = bootstrap_clusters(episodes, dates)[0]
    grouped: dict[str, list[Row]] = {}
    for name, row in zip(["TWAP", "patience", *methods], evaluation.rows, strict=True):
        grouped.setdefault(name, []).append(row)
    table = []
    for name, rows in grouped.items():
        pooled = {column: np.concatenate([row.columns[column] for row in rows]) for column in rows[0].columns}
        found = bootstrap_estimates(pooled, np.tile(clusters, len(rows)), evaluation.seed, clusters_min=CLUSTERS_MIN)
        by_seed = [float(np.nanmean(row.columns["pa_rule"])) for row in rows]
        estimates = {column: [found[column].value, *(found[column].interval or [])] for column in COLUMNS}
        table.append({"policy": name, "seeds": len(rows), "by_seed": by_seed, **estimates})
    return table


def markdown(one: dict[str, Any]) -> str:
    """The table of a section."""
    headers = ("policy", "seeds", *COLUMNS, "PA_rule by seed")
    lines = [f"### {one['title']}", "", f"| {' | '.join(headers)} |", "|" + "---|" * len(headers)]
    for row in one["rows"]:
        cells = [
            "{:.2f} [{:.2f}, {:.2f}]".format(*row[name])
            if name in WITH_INTERVAL and len(row[name]) > 1
            else f"{row[name][0]:.2f}"
            for name in COLUMNS
        ]
        by_seed = " ".join(f"{value:.2f}" for value in row["by_seed"]) if row["policy"] in one["steps"] else ""
        lines.append(f"| {row['policy']} | {row['seeds'] if by_seed else ''} | {' | '.join(cells)} | {by_seed} |")
    steps = "; ".join(f"{method} {', '.join(f'{each:,}' for each in found)}" for method, found in one["steps"].items())
    note = (
        f"{one['orders']:,} orders, seed {one['seed']}; brackets: {CONFIDENCE:.0%} bootstrap over {one['clusters']} {one['unit']}; "
        f"{one['without_trades']} orders without PA. PA: with spread, impact and fees; PA_mid: at mids. {one['facts']} Steps: {steps or 'none'}."
    )
    return "\n".join([*lines, "", note, ""])
