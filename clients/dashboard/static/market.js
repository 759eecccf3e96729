// The charts of the market: price and volume, spread and imbalance, order flow.
import { bars, axisCompact, Chart, steps } from "./charts.js";
import { indicativePrice } from "./format.js";

/** Steps of an axis of ticks. */
const WHOLE = Array.from({ length: 12 }, (_, power) => [1, 2, 5].map((step) => step * 10 ** power)).flat();

export class MarketCharts {
  constructor(root) {
    this.grid = null;
    this.most = 1;
    this.withAuctions = false;
    const price = (_, value) => (value == null ? "" : this.grid.price(value));
    const prices = { values: (_, splits) => splits.map((value) => this.grid?.price(value) ?? ""), size: 58, incrs: WHOLE };
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
      scales: { price: { range: aroundPrices }, lots: { range: (_, low, high) => { const most = Math.max(1, -low || 0, high || 0); return [-most * 1.05, most * 4]; } } },
    });
    this.spread = new Chart(root("spread"), {
      series: [
        { label: "imbalance", stroke: "violet", fill: "violet-soft", scale: "share", value: (_, value) => (value == null ? "" : value.toFixed(2)) },
        { label: "spread, ticks", stroke: "amber", paths: steps, scale: "ticks" },
      ],
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
      scales: { lots: { range: () => [-this.most, this.most] } },
    });
  }

  /** A market that never has an auction needs no words for it. */
  showAuctions(some) {
    if (some === this.withAuctions) return;
    this.withAuctions = some;
    this.price.setSeries(some ? [...this.trading, ...this.auctions] : this.trading);
  }

  /** `then`: a column at which the cursors stand. */
  draw(columns, grid, then) {
    this.grid = grid;
    const times = columns.map((column) => column.t);
    const pick = (value) => columns.map(value);
    const both = (column) => column.bid != null && column.ask != null && column.bid < column.ask; // a book that collects may be crossed
    const prices = [times, pick((c) => lots(c, 1) || null), pick((c) => -lots(c, 2) || null), pick((c) => c.last), pick((c) => (both(c) ? (c.bid + c.ask) / 2 : null))];
    const auctions = [pick((c) => lots(c, 3) || null), pick(indicativePrice)];
    this.showAuctions(auctions.flat().some((value) => value !== null));
    this.price.set(this.withAuctions ? [...prices, ...auctions] : prices);
    this.spread.set([times, pick((c) => c.imbalance), pick((c) => (both(c) ? c.ask - c.bid : null))]);
    this.most = usual(columns.flatMap((c) => Object.values(c.flow)));
    const flow = (name, sign) => pick((c) => sign * c.flow[name]);
    this.flow.set([times, flow("added_bid", 1), flow("added_ask", 1), flow("cancelled_bid", -1), flow("cancelled_ask", -1)]);
    for (const chart of [this.price, this.spread, this.flow]) chart.mark(then?.t);
  }
}

/** Lots that a column's aggressors bought (1) or sold (2), or that auctions traded (3). */
function lots(column, which) {
  return column.traded.reduce((sum, row) => sum + row[which], 0);
}

/** What all but a few of the values are below: the first orders of a day would make the rest flat. */
function usual(values) {
  const sorted = values.toSorted((a, b) => a - b);
  return 1.1 * Math.max(1, sorted[Math.floor((sorted.length - 1) * 0.995)] ?? 1);
}

/** A scale of ticks: some of them above and below what is shown. */
function aroundPrices(_, low, high) {
  const margin = Math.max(2, Math.ceil((high - low) * 0.1));
  return low == null ? [null, null] : [low - margin, high + margin];
}
