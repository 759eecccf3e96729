"""The wealth of minds over time as an SVG, with events on the axis."""

import math
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

COLOURS = ("#2471a3", "#c0392b", "#1e8449", "#8e44ad", "#d68910", "#117a65", "#555555", "#7b241c")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 960, 360, 64, 16, 30, 34
LABEL_WIDTH, TIMES = 16, 6
"""The minimum distance between two event numbers in pixels, and the number of times on the axis."""


@dataclass(frozen=True)
class Curve:
    """The return of one mind since its first decision, at the times of its decisions."""

    name: str
    persona: str
    points: Sequence[tuple[int, float]]


@dataclass(frozen=True)
class Mark:
    """An event on the axis."""

    number: int
    time_ns: int
    text: str


class _Axes:
    """Maps times and returns to pixels. Times without decisions, such as nights, take no space."""

    def __init__(self, times_ns: Sequence[int], values: Sequence[float]) -> None:
        self.times_ns = times_ns
        low, high = min(values), max(values)
        room = (high - low) * 0.05 or 0.001
        self.low, self.high = low - room, high + room

    def x(self, time_ns: int) -> float:
        """The position of a time: interpolated between two decision times; at the edge before the first and after the last."""
        times = self.times_ns
        after = bisect_left(times, time_ns)
        if after in (0, len(times)):
            place = 0.0 if after == 0 else len(times) - 1.0
        else:
            before_ns = times[after - 1]
            place = after - 1 + (time_ns - before_ns) / (times[after] - before_ns)
        return LEFT + place / max(1, len(times) - 1) * (WIDTH - LEFT - RIGHT)

    def y(self, value: float) -> float:
        return TOP + (self.high - value) / (self.high - self.low) * (HEIGHT - TOP - BOTTOM)


def wealth_picture(curves: Sequence[Curve], marks: Sequence[Mark], time_texts: Mapping[int, str]) -> str:
    """An SVG with a line per mind, in the colour of its persona, and a numbered line per event; the browser shows their names under the pointer.

    time_texts: the texts of all times of the curves.
    """
    if not any(curve.points for curve in curves):
        return "<p>No decisions yet.</p>"
    axes = _Axes(sorted(time_texts), [0.0, *(value for curve in curves for _, value in curve.points)])
    colours = {name: COLOURS[n % len(COLOURS)] for n, name in enumerate(dict.fromkeys(c.persona for c in curves))}
    parts = [*_grid(axes, time_texts), *_events(axes, marks)]
    opacity = 0.85 if len(curves) <= 20 else 0.35
    parts += [_line(axes, curve, colours[curve.persona], opacity) for curve in curves if curve.points]
    parts += _legend(colours)
    label = "return of each mind over time, with numbered events"
    return (
        f'<svg viewBox="0 0 {WIDTH} {HEIGHT + 22}" role="img" aria-label="{label}" font-family="sans-serif" font-size="11" '
        f'fill="#444">{"".join(parts)}</svg>'
    )


def _line(axes: _Axes, curve: Curve, colour: str, opacity: float) -> str:
    """A step line, because wealth is known only at decisions."""
    path, last = "", 0.0
    for number, (time_ns, value) in enumerate(curve.points):
        x, y = axes.x(time_ns), axes.y(value)
        path += f"M{x:.1f} {y:.1f}" if number == 0 else f"H{x:.1f}V{y:.1f}"
        last = value
    title = f"<title>{escape(curve.name)} {last:+.2%}</title>"
    return (
        f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="1.6" stroke-opacity="{opacity}">{title}</path>'
    )


def _grid(axes: _Axes, time_texts: Mapping[int, str]) -> Iterator[str]:
    for value in _round_values(axes.low, axes.high):
        y = axes.y(value)
        stroke = "#888" if value == 0 else "#ddd"
        yield f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="{stroke}"/>'
        yield f'<text x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{value:+.2%}</text>'
    times = axes.times_ns
    chosen = dict.fromkeys(round(n * (len(times) - 1) / (TIMES - 1)) for n in range(TIMES))
    for place in chosen:
        anchor = "start" if place == 0 else "end" if place == len(times) - 1 else "middle"
        x = axes.x(times[place])
        yield f'<text x="{x:.1f}" y="{HEIGHT - BOTTOM + 18}" text-anchor="{anchor}">{escape(time_texts[times[place]])}</text>'


def _round_values(low: float, high: float) -> list[float]:
    """Multiples of 1, 2 or 5 times a power of ten between two values, at most ten."""
    power = 10.0 ** math.floor(math.log10(high - low))
    step = next(power * factor for factor in (0.1, 0.2, 0.5, 1.0) if (high - low) / (power * factor) <= 10)
    return [step * number for number in range(math.ceil(low / step), math.floor(high / step) + 1)]


def _events(axes: _Axes, marks: Sequence[Mark]) -> Iterator[str]:
    free_x = 0.0
    for mark in marks:
        x = axes.x(mark.time_ns)
        label = ""
        if x >= free_x:
            label = f'<text x="{x:.1f}" y="{TOP - 8}" text-anchor="middle">{mark.number}</text>'
            free_x = x + LABEL_WIDTH
        line = f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 4}" y2="{HEIGHT - BOTTOM}" stroke="#999" stroke-dasharray="3 3"/>'
        yield f"<g><title>{escape(f'{mark.number}: {mark.text}')}</title>{line}{label}</g>"


def _legend(colours: Mapping[str, str]) -> Iterator[str]:
    x = float(LEFT)
    for name, colour in colours.items():
        yield f'<rect x="{x:.0f}" y="{HEIGHT + 4}" width="12" height="4" fill="{colour}"/>'
        yield f'<text x="{x + 17:.0f}" y="{HEIGHT + 11}">{escape(name)}</text>'
        x += 34 + 6.5 * len(name)
