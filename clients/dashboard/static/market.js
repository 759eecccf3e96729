// The charts of the market: price and volume, spread and imbalance, order flow.
import { bars, axisCompact, Chart, steps } from "./charts.js";
import { indicativePrice } from "./format.js";

/** Possible steps of a price axis, in ticks. */
export const TICK_STEPS = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

/** Colours of forecasts by horizon, the shortest first. */
const FORECASTS = ["accent", "text", "buy", "sell"];

export class MarketCharts {
  constructor(root) {
    this.grid = null;
    this.flowMax = 1;
    this.withAuctions = false;
    const price = (_, value) => (value == null ? "" : this.grid.price(value));
    const prices = { values: (_, splits) => splits.map((value) => this.grid?.price(value) ?? ""), size: 58, incrs: TICK_STEPS };
    this.trading = [
      { label: "bought", stroke: "buy-soft", fill: "buy-soft", paths: bars, scale: "lots" },
      { label: "sold", stroke: "sell-soft", fill: "sell-soft", paths: bars, scale: "lots" },
      { label: "last", stroke: "amber", scale: "price", paths: steps, width: 0.75, value: price },
      { label: "mid", stroke: "accent", scale: "price", value: price },
    ];
    this.auctions = [
      { label: "auctions", stroke: "violet", fill: "violet", paths: bars, scale: "lots" },
      { label: "indicative", stroke: "violet", scale: "price", dash: [4, 3], value: price },
    ];
    this.price = new Chart(root("price"), {
      series: this.trading,
      axes: { price: prices, lots: { ...axisCompact, size: 52 } },
      scales: { price: { range: aroundPrices }, lots: { range: (_, low, high) => { const max = Math.max(1, -low || 0, high || 0); return [-max * 1.05, max * 4]; } } },
    });
    const share = (_, value) => (value == null ? "" : value.toFixed(2));
    this.quality = [
      { label: "imbalance", stroke: "violet", fill: "violet-soft", scale: "share", value: share },
      { label: "spread, ticks", stroke: "amber", paths: steps, scale: "ticks" },
    ];
    this.forecast = (horizon, index) => ({ label: `forecast ${horizon}, up − down`, stroke: FORECASTS[index % FORECASTS.length], paths: steps, scale: "share", value: share });
    this.horizons = [];
    this.spread = new Chart(root("spread"), {
      series: this.quality,
      axes: { ticks: { ...axisCompact, size: 38 }, share: { values: (_, splits) => splits.map((value) => value.toFixed(1)), size: 38 } },
      scales: { share: { range: [-1, 1] }, ticks: { range: (_, low, high) => [0, Math.max(2, high * 1.3 || 2)] } },
    });
    this.flow = new Chart(root("flow"), {
      series: [
        { label: "bids added", stroke: "buy", scale: "lots" },
        { label: "asks added", stroke: "sell", scale: "lots" },
        { label: "bids cancelled", stroke: "buy-soft", width: 1, scale: "lots" },
        { label: "asks cancelled", stroke: "sell-soft", width: 1, scale: "lots" },
      ],
      axes: { lots: axisCompact },
      scales: { lots: { range: () => [-this.flowMax, this.flowMax] } },
    });
  }

  /** Shows the auction series only if there was an auction. */
  showAuctions(visible) {
    if (visible === this.withAuctions) return;
    this.withAuctions = visible;
    this.price.setSeries(visible ? [...this.trading, ...this.auctions] : this.trading);
  }

  /** Shows the series of forecasts if there were any. */
  showForecasts(horizons) {
    if (horizons.join() === this.horizons.join()) return;
    this.horizons = horizons;
    this.spread.setSeries([...this.quality, ...horizons.map(this.forecast)]);
  }

  /** selected: the column to mark with the cursors, if any. */
  draw(columns, grid, selected) {
    this.grid = grid;
    const times = columns.map((column) => column.t);
    const valuesOf = (value) => columns.map(value);
    const hasSpread = (column) => column.bid != null && column.ask != null && column.bid < column.ask; // before an auction the book may be crossed
    const prices = [times, valuesOf((c) => lots(c, 1) || null), valuesOf((c) => -lots(c, 2) || null), valuesOf((c) => c.last), valuesOf((c) => (hasSpread(c) ? (c.bid + c.ask) / 2 : null))];
    const auctions = [valuesOf((c) => lots(c, 3) || null), valuesOf(indicativePrice)];
    this.showAuctions(auctions.flat().some((value) => value !== null));
    this.price.set(this.withAuctions ? [...prices, ...auctions] : prices);
    this.showForecasts([...new Set(columns.flatMap((c) => Object.keys(c.leans)))].toSorted((a, b) => parseFloat(a) - parseFloat(b)));
    const forecasts = this.horizons.map((horizon) => valuesOf((c) => c.leans[horizon] ?? null));
    this.spread.set([times, valuesOf((c) => c.imbalance), valuesOf((c) => (hasSpread(c) ? c.ask - c.bid : null)), ...forecasts]);
    this.flowMax = scaleMax(columns.flatMap((c) => Object.values(c.flow)));
    const flow = (name, sign) => valuesOf((c) => sign * c.flow[name]);
    this.flow.set([times, flow("added_bid", 1), flow("added_ask", 1), flow("cancelled_bid", -1), flow("cancelled_ask", -1)]);
    for (const chart of [this.price, this.spread, this.flow]) chart.mark(selected?.t);
  }
}

/** Lots that a column's aggressors bought (1) or sold (2), or that auctions traded (3). */
function lots(column, which) {
  return column.traded.reduce((sum, row) => sum + row[which], 0);
}

/** A bound above almost all values: the first orders of a day would flatten the rest. */
function scaleMax(values) {
  const sorted = values.toSorted((a, b) => a - b);
  return 1.1 * Math.max(1, sorted[Math.floor((sorted.length - 1) * 0.995)] ?? 1);
}

/** The range of a price axis: the data and a margin of some ticks. */
function aroundPrices(_, low, high) {
  const margin = Math.max(2, Math.ceil((high - low) * 0.1));
  return low == null ? [null, null] : [low - margin, high + margin];
}
