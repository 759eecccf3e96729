// uPlot charts in the page's colours, as wide as their element; rebuilt when the theme changes.
import { colour, compact, timeOfDay } from "./format.js";

const uPlot = window.uPlot;
const SHORTEST_S = 10;
/** Times of day without repetition: a short axis has several splits in one second. */
export const time = { values: (_, splits) => splits.map((value, index) => (index && Math.floor(value) === Math.floor(splits[index - 1]) ? "" : timeOfDay(value))), space: 90 };
export const axisCompact = { values: (_, splits) => splits.map((value) => (Math.abs(value) < 10 && value % 1 ? value.toFixed(1) : compact(value))) };

export class Chart {
  /** series: [{label, stroke (a colour name of the page), fill, paths, scale, width, points, value}]; axes: {scale: options}; x: options of the x axis; hooks: uPlot's. */
  constructor(element, { series, axes = {}, x = time, scales = {}, height, bands, hooks }) {
    this.element = element;
    this.options = { series, axes, x, scales, height, bands, hooks };
    this.data = [[], ...series.map(() => [])];
    document.addEventListener("theme", () => this.build());
    this.observer = new ResizeObserver(() => this.fit());
    this.observer.observe(element);
    this.build();
  }

  build() {
    this.plot?.destroy();
    const { series, axes, x, scales, bands, hooks } = this.options;
    const axis = { stroke: colour("muted"), grid: { stroke: colour("grid"), width: 1 }, ticks: { show: false }, font: `11px ${colour("mono")}`, gap: 4 };
    const sides = Object.entries(axes).map(([scale, options], index) => ({ ...axis, scale, side: index ? 1 : 3, size: 46, grid: index ? { show: false } : axis.grid, ...options }));
    this.plot = new uPlot(
      {
        ...this.size(),
        padding: [8, Object.keys(axes).length > 1 ? 0 : 10, x.show === false ? 8 : 0, 0],
        cursor: { y: false, points: { size: 6 } },
        legend: { live: true },
        scales: { x: { time: false, range: timeRange }, ...scales },
        axes: [{ ...axis, size: 24, ...x }, ...sides],
        bands,
        hooks,
        series: [{ label: "", value: (_, value) => (value == null ? "" : (x.value ?? timeOfDay)(value)) }, ...series.map(withColours)],
      },
      this.data,
      this.element,
    );
    this.legend = this.element.querySelector(".u-legend");
    this.observer.observe(this.legend);
    this.fit();
  }

  size() {
    const legend = this.legend?.offsetHeight ?? 22;
    return { width: Math.max(80, this.element.clientWidth), height: Math.max(70, (this.options.height ?? this.element.clientHeight) - legend) };
  }

  fit() {
    const { width, height } = this.size();
    if (Math.abs(width - this.plot.width) > 1 || Math.abs(height - this.plot.height) > 1) this.plot.setSize({ width, height });
  }

  setSeries(series) {
    this.options.series = series;
    this.data = [[], ...series.map(() => [])];
    this.build();
  }

  set(data) {
    this.data = data;
    this.plot.setData(data);
  }

  /** Puts the cursor at x; undefined removes it again. */
  mark(x) {
    if (x === undefined && !this.marked) return;
    this.marked = x !== undefined;
    this.plot.setCursor({ left: this.marked ? this.plot.valToPos(x, "x") : -10, top: 0 });
  }
}

/** The time range of the data, at least SHORTEST_S. */
function timeRange({ data: [times] }) {
  return times.length ? [Math.min(times[0], times.at(-1) - SHORTEST_S), times.at(-1)] : [null, null];
}

function withColours(options) {
  const paint = (name) => (typeof name === "string" ? colour(name) : name);
  return {
    width: 1.5,
    points: { show: false },
    spanGaps: false,
    value: (_, value) => (value == null ? "" : compact(value)),
    ...options,
    stroke: paint(options.stroke),
    ...(options.fill ? { fill: paint(options.fill) } : {}),
  };
}

export const bars = uPlot.paths.bars({ size: [0.9, 8] });
export const stacked = uPlot.paths.bars({ size: [0.9, 40] });
export const steps = uPlot.paths.stepped({ align: 1 });
