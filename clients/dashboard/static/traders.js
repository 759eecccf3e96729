// Order flow by kind of trader, as stacked bars: the most active kinds, and all others together.
import { axisCompact, Chart, stacked } from "./charts.js";
import { colour, make } from "./format.js";

const MEASURES = ["limit orders", "market orders", "cancels", "lots ordered"];
const KINDS = 6;
const BY_SIDE = "side";

export class TraderFlow {
  /** panel: the panel of the order flow by side; gets a second chart and a selector between the two. */
  constructor(panel, bySide, hint) {
    Object.assign(this, { bySide, hint, sideHint: hint.textContent, labels: [], hues: new Map() });
    this.element = make("div", "chart");
    this.note = make("p", "note");
    this.choice = document.createElement("select");
    this.choice.ariaLabel = "Order flow by";
    this.choice.append(group("by trader", ...MEASURES.map((name, index) => new Option(name, index))), group("by side", new Option("lots", BY_SIDE)));
    this.choice.addEventListener("change", () => this.show());
    hint.before(this.choice);
    panel.append(this.note, this.element);
    this.chart = new Chart(this.element, { series: [], axes: { count: axisCompact }, scales: { count: { range: (_, low, high) => [0, Math.max(1, high * 1.1 || 1)] } } });
    this.show();
  }

  draw(traders) {
    this.traders = traders;
    this.show();
  }

  show() {
    const byTrader = this.traders != null && this.choice.value !== BY_SIDE;
    this.choice.hidden = this.traders == null;
    this.bySide.hidden = byTrader;
    this.element.hidden = !byTrader;
    this.note.textContent = byTrader ? this.traders.problem || (this.traders.bars ? "" : "waiting for orders of traders started with `--flow`") : "";
    this.note.hidden = !this.note.textContent;
    this.hint.textContent = byTrader ? `per ${durationText(this.traders.bar_s)}` : this.sideHint;
    if (byTrader) this.stack(this.traders, Number(this.choice.value));
  }

  stack({ start_s: start, bar_s: step, bars, kinds }, measure) {
    const rows = Object.entries(kinds).map(([name, counts]) => ({ label: name.replaceAll("_", " "), hue: this.hue(name), counts: counts[measure] }));
    const total = ({ counts }) => counts.reduce((sum, count) => sum + count, 0);
    rows.sort((a, b) => total(b) - total(a));
    const shown = rows.slice(0, KINDS).filter(total);
    const rest = rows.slice(KINDS).filter(total);
    if (rest.length) shown.push({ label: "others", hue: null, counts: rest.reduce((sum, { counts }) => sum.map((value, bar) => value + counts[bar]), Array(bars).fill(0)) });
    // draw the full stack first, then the stack without its top layer, and so on
    this.layers = shown.toReversed();
    const labels = this.layers.map((layer) => layer.label);
    if (labels.join() !== this.labels.join()) {
      this.labels = labels;
      this.chart.setSeries(this.layers.map((layer, index) => this.series(layer, index)));
    }
    const heights = [];
    let below = Array(bars).fill(0);
    for (const { counts } of shown) heights.unshift((below = below.map((height, bar) => height + counts[bar])));
    this.chart.set([Array.from({ length: bars }, (_, bar) => start + (bar + 0.5) * step), ...heights]);
  }

  /** A fixed hue for each kind; the golden angle keeps successive hues apart. */
  hue(name) {
    if (!this.hues.has(name)) this.hues.set(name, (210 + this.hues.size * 137.5) % 360);
    return this.hues.get(name);
  }

  series({ label, hue }, index) {
    const paint = () => (hue === null ? colour("muted") : `hsl(${hue} 62% ${document.documentElement.dataset.theme === "light" ? 45 : 62}%)`);
    return { label, stroke: paint, fill: paint, width: 0, paths: stacked, scale: "count", value: (_, value, __, bar) => (bar == null ? "" : axisCompact.values(null, [this.layers[index].counts[bar]])[0]) };
  }
}

function group(label, ...options) {
  const element = Object.assign(document.createElement("optgroup"), { label });
  element.append(...options);
  return element;
}

function durationText(seconds) {
  return seconds < 120 ? `${seconds} s` : `${(seconds / 60).toFixed(seconds % 60 ? 1 : 0)} min`;
}
