"""The results of a soak: verdicts, a table and a picture."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.table import Table

from benchmarks.soak_verdict import Growth, Life, life

WARM_UP_S, WARM_UP_SHARE = 600.0, 0.3
"""Warm-up of a process: this share of its life, of an exchange at most this long. Dashboard and metrics have had every kind of event by then, as the longest
life of an exchange has."""
LOAD_SHARE = 0.9
OTHERS = ("dashboard", "metrics")


def lives(samples: Sequence[dict[str, Any]]) -> list[Life]:
    """Each exchange process, and the dashboard and metrics processes."""
    found = []
    for number in sorted({one["life"] for one in samples}):
        own = [_flat(one, "exchange") for one in samples if one["life"] == number and one["exchange"]]
        found.append((f"exchange {number}", own))
    found += [(name, [_flat(one, name) for one in samples if one[name]]) for name in OTHERS]
    return [life(name, own, _warm_up_s(name, own)) for name, own in found if own]


def _flat(sample: dict[str, Any], name: str) -> dict[str, float]:
    return {"time_s": sample["time_s"], **sample[name]}


def _warm_up_s(name: str, samples: Sequence[dict[str, float]]) -> float:
    share_s = WARM_UP_SHARE * (samples[-1]["time_s"] - samples[0]["time_s"])
    return share_s if name in OTHERS else min(WARM_UP_S, share_s)


def journal_growth(samples: Sequence[dict[str, Any]], limit_mb: float) -> list[str]:
    """What is wrong with the size of the journal: nothing while it stays below what retention and the files in work allow."""
    largest = max((one["journal_mb"] for one in samples), default=0.0)
    return [f"the journal took {largest:,.0f} MB, at most {limit_mb:,.0f} MB is promised"] if largest > limit_mb else []


def load_kept(samples: Sequence[dict[str, Any]], load_per_s: float) -> list[str]:
    """What is wrong with the rate at the end of the longest life, in its last third: nothing while the median is at least LOAD_SHARE of what was to be sent."""
    counts = Counter(one["life"] for one in samples if one["exchange"])
    longest = [one["commands_per_s"] for one in samples if one["life"] == counts.most_common(1)[0][0]]
    rate = float(np.median(longest[-len(longest) // 3 :]))
    wanted = LOAD_SHARE * load_per_s
    return [f"{rate:,.0f} commands a second were acknowledged at the end, at least {wanted:,.0f} are promised"] if rate < wanted else []  # fmt: skip


def _text(found: Growth | None, digits: int = 2) -> str:
    if found is None:
        return "too short"
    return f"{found.per_hour:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"


ROWS = ("process", "hours after warm-up", "own memory MB", "own memory %/h", "resident %/h", "descriptors", "threads")


def _cells(one: Life) -> list[str]:
    return [
        one.name, f"{one.hours:.2f}", f"{one.memory_mb:.0f}", _text(one.memory_percent), _text(one.rss_percent),
        _text(one.descriptors, 1), _text(one.threads, 1),
    ]  # fmt: skip


def tables(result: dict[str, Any], found: Sequence[Life]) -> list[Table]:
    """The lives, the events, and the other figures."""
    growth = Table(*ROWS, title="growth: slope [95 % interval]; descriptors and threads: change after the warm-up")
    for one in found:
        growth.add_row(*_cells(one))
    events = Table("minute", "event", "what was checked")
    for event in result["events"]:
        events.add_row(f"{event['time_s'] / 60:.1f}", event["name"], event["text"])
    figures = Table("figure", "value")
    for name, value in result["figures"].items():
        figures.add_row(name, f"{value:,.1f}" if isinstance(value, float) else f"{value:,}")
    return [growth, events, figures]


def growth_json(found: Sequence[Life]) -> list[dict[str, Any]]:
    """The lives for a JSON file."""

    def interval(one: Growth | None) -> list[float] | None:
        return None if one is None else [one.per_hour, one.low, one.high]

    return [
        {
            "process": one.name, "hours": one.hours, "memory_mb": one.memory_mb,
            "memory_percent_per_h": interval(one.memory_percent), "rss_percent_per_h": interval(one.rss_percent),
            "descriptors_change": interval(one.descriptors), "threads_change": interval(one.threads),
        }
        for one in found
    ]  # fmt: skip


def draw(path: Path, samples: Sequence[dict[str, Any]], events: Sequence[dict[str, Any]]) -> None:
    """Memory, descriptors, rate, latency and size of the journal over time, with the events as lines."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(11, 12), layout="constrained")
    panels = figure.subplots(5, sharex=True)
    minutes = np.array([one["time_s"] / 60 for one in samples])

    def series(*names: str) -> np.ndarray[Any, np.dtype[np.float64]]:
        values = []
        for one in samples:
            value: Any = one
            for name in names:
                value = value.get(name) if value else None
            values.append(np.nan if value is None else value)
        return np.array(values, np.float64)

    panels[0].plot(minutes, series("exchange", "memory_mb"), label="own (RssAnon)")
    panels[0].plot(minutes, series("exchange", "rss_mb"), label="with the mapped journal (VmRSS)", lw=0.7)
    panels[0].set_ylabel("exchange, MB")
    panels[1].plot(minutes, series("exchange", "descriptors"), label="descriptors")
    panels[1].plot(minutes, series("exchange", "threads"), label="threads")
    panels[1].plot(minutes, series("live"), label="sessions")
    panels[1].set_ylabel("count")
    panels[2].plot(minutes, series("commands_per_s") / 1e3)
    panels[2].set_ylabel("acknowledged, thousand/s")
    panels[3].plot(minutes, series("p50_us") / 1e3, label="p50")
    panels[3].plot(minutes, series("p99_us") / 1e3, label="p99")
    panels[3].set_yscale("log")
    panels[3].set_ylabel("honest latency, ms")
    panels[4].plot(minutes, series("journal_mb"))
    panels[4].set_ylabel("journal, MB")
    panels[4].set_xlabel("minutes")
    for panel in panels:
        panel.set_ylim(bottom=None if panel is panels[3] else 0)
        for event in events:
            panel.axvline(event["time_s"] / 60, color="0.7", lw=0.8, zorder=0)
        if panel.get_legend_handles_labels()[0]:
            panel.legend(loc="lower right", fontsize=8)
    for event in events:
        panels[0].text(
            event["time_s"] / 60,
            1.02,
            event["name"],
            rotation=45,
            fontsize=7,
            transform=panels[0].get_xaxis_transform(),
        )
    figure.savefig(path)
