// Health of the exchange: rates, round trips, counts.
import { Chart, axisCompact } from "./charts.js";
import { compact, count, facts } from "./format.js";

const KEPT = 480;

export class Vitals {
  constructor(list, element) {
    this.list = list;
    this.history = [];
    this.chart = new Chart(element, {
      series: [
        { label: "commands/s", stroke: "accent", fill: "accent-soft", scale: "rate" },
        { label: "round trip, ms", stroke: "amber", width: 1, scale: "ms", value: (_, value) => (value == null ? "" : value.toFixed(2)) },
      ],
      axes: { rate: axisCompact, ms: { ...axisCompact, size: 38 } },
      scales: { rate: { range: (_, low, high) => [0, Math.max(10, high * 1.15 || 10)] }, ms: { range: (_, low, high) => [0, Math.max(1, high * 2 || 1)] } },
      x: { show: false },
    });
  }

  draw(exchange) {
    const { rates, counts, round_trip_ms: trip } = exchange;
    if (!rates) return;
    facts(this.list, [
      ["commands/s", compact(rates.commands)],
      ["events/s", compact(rates.events)],
      ["feed/s", compact(rates.feed_messages)],
      ["round trip p50", `${trip[0].toFixed(2)} ms`],
      ["round trip p99", `${trip[1].toFixed(2)} ms`],
      ["orders open", count.format(counts.orders_open ?? 0)],
      ["sessions", count.format(counts.sessions ?? 0)],
      ["commands", compact(counts.commands ?? 0)],
      ["feed gaps", count.format(exchange.gaps), exchange.gaps ? "warn" : ""],
    ]);
    if (exchange.offline) return;
    this.history = [...this.history, [Date.now() / 1000, rates.commands, trip[2]]].slice(-KEPT);
    this.chart.set([0, 1, 2].map((column) => this.history.map((row) => row[column])));
  }
}
