// Candles of the price, with the lots traded below: instead of the line, if the viewer selects a period.
import { axisCompact, bars, Chart } from "./charts.js";
import { colour, count, make } from "./format.js";
import { TICK_STEPS } from "./market.js";

const PERIODS = { 1: "1 s", 10: "10 s", 60: "1 min", 300: "5 min" };
const LINE = "line";
const CANDLE_PX = 7;
const FEWEST = 12;
const KEY = "candles";
const [OPEN, HIGH, LOW, CLOSE, LOTS] = [1, 2, 3, 4, 5];

export class PriceCandles {
  /** panel: the panel of the line chart; gets a second chart and a selector between the two. */
  constructor(panel, line) {
    Object.assign(this, { line, candles: {}, grid: null, shown: [] });
    this.element = make("div", "chart");
    this.choice = document.createElement("select");
    this.choice.ariaLabel = "Price as";
    const group = Object.assign(document.createElement("optgroup"), { label: "candles" });
    group.append(...Object.entries(PERIODS).map(([period, name]) => new Option(name, period)));
    this.choice.append(new Option("line", LINE), group);
    this.choice.value = localStorage.getItem(KEY) in PERIODS ? localStorage.getItem(KEY) : LINE;
    this.choice.addEventListener("change", () => {
      localStorage.setItem(KEY, this.choice.value);
      this.show();
    });
    panel.querySelector("h2").append(this.choice);
    panel.append(this.element);
    const price = (_, value) => (value == null ? "" : this.grid.price(value));
    const invisible = { scale: "price", stroke: "muted", paths: () => null, value: price };
    this.chart = new Chart(this.element, {
      series: [
        { label: "lots", stroke: "accent", fill: "accent-soft", width: 1, paths: bars, scale: "lots", value: (_, value) => (value == null ? "" : count.format(value)) },
        ...["open", "high", "low", "close"].map((label) => ({ label, ...invisible })),
      ],
      axes: { price: { values: (_, splits) => splits.map((value) => this.grid?.price(value) ?? ""), size: 58, incrs: TICK_STEPS }, lots: { ...axisCompact, size: 52 } },
      scales: { x: { time: false, range: () => this.range }, price: { range: aboveLots }, lots: { range: (_, low, high) => [0, Math.max(1, high || 0) * 4] } },
      hooks: { draw: [(plot) => this.paint(plot)] },
    });
    this.show();
  }

  draw(candles, grid, selected) {
    Object.assign(this, { candles, grid, selected });
    this.show();
  }

  /** Seconds per candle; NaN while the line is shown. */
  get period() {
    return Number(this.choice.value);
  }

  /** The times that are shown: as many periods as have room, at least FEWEST. */
  get range() {
    const last = this.shown.at(-1)?.[0];
    if (last === undefined) return [null, null];
    const room = Math.max(FEWEST, Math.floor((this.chart?.plot.bbox.width ?? 0) / devicePixelRatio / CANDLE_PX));
    const first = Math.max(last - room + 1, Math.min(this.shown[0][0], last - FEWEST + 1));
    return [first * this.period, (last + 1) * this.period];
  }

  show() {
    const isLine = this.choice.value === LINE;
    this.line.hidden = !isLine;
    this.element.hidden = isLine;
    if (isLine || !this.grid) return;
    this.shown = this.candles[this.choice.value] ?? [];
    const values = (place) => this.shown.map((candle) => candle[place]);
    this.chart.set([this.shown.map(([number]) => (number + 0.5) * this.period), ...[LOTS, OPEN, HIGH, LOW, CLOSE].map(values)]);
    this.chart.mark(this.shown.length ? this.selected?.t : undefined);
  }

  /** Paints a body from open to close and a wick from low to high; rising candles in the buyers' colour. */
  paint(plot) {
    const [rising, falling] = [colour("buy"), colour("sell")];
    const { ctx, bbox } = plot;
    const width = Math.max(1, Math.abs(plot.valToPos(this.period, "x", true) - plot.valToPos(0, "x", true)) * 0.7);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const [number, open, high, low, close] of this.shown) {
      const x = plot.valToPos((number + 0.5) * this.period, "x", true);
      const y = (value) => plot.valToPos(value, "price", true);
      const [top, bottom] = [y(Math.max(open, close)), y(Math.min(open, close))];
      const wick = Math.max(1, devicePixelRatio);
      ctx.fillStyle = close >= open ? rising : falling;
      ctx.fillRect(x - wick / 2, y(high), wick, Math.max(wick, y(low) - y(high)));
      ctx.fillRect(x - width / 2, top, width, Math.max(wick, bottom - top));
    }
    ctx.restore();
  }
}

/** The range of the price axis: the data, a margin of some ticks, and room for the lots below. */
function aboveLots(_, low, high) {
  const margin = Math.max(2, Math.ceil((high - low) * 0.1));
  return low == null ? [null, null] : [low - margin - Math.ceil((high - low + 2 * margin) / 3), high + margin];
}
