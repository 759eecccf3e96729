// Parent orders against their schedules.
import { axisCompact, Chart, steps } from "./charts.js";
import { count, facts, make, timeOfDay } from "./format.js";

export class Executions {
  constructor(element) {
    this.element = element;
    this.panels = new Map();
  }

  draw(executions, nowS, gridOf, midOf) {
    executions.forEach((execution, index) => {
      if (!this.panels.has(index)) this.panels.set(index, new Panel(this.element));
      this.panels.get(index).draw(execution, nowS, gridOf, midOf);
    });
  }
}

/** The scheduled quantity at a time, interpolated between the points of a schedule. */
function scheduledLots(schedule, time) {
  let before = [schedule[0]?.[0] ?? 0, 0];
  for (const point of schedule) {
    if (point[0] > time) return before[1] + ((point[1] - before[1]) * Math.max(0, time - before[0])) / (point[0] - before[0]);
    before = point;
  }
  return before[1];
}

class Panel {
  constructor(parent) {
    const panel = make("section", "panel execution");
    this.title = make("h2", "", "Execution");
    this.bar = make("progress");
    this.list = make("dl", "facts grid");
    this.note = make("p", "note");
    const element = make("div", "chart small");
    panel.append(this.title, this.note, this.bar, this.list, element);
    parent.append(panel);
    this.chart = new Chart(element, {
      series: [
        { label: "schedule", stroke: "muted", width: 1 },
        { label: "filled", stroke: "accent", fill: "accent-soft", paths: steps, points: { show: true, size: 4 } },
      ],
      axes: { y: axisCompact },
    });
  }

  draw({ file, order, schedule, fills, filled_lots: filled, average_ticks: average, ended, problem }, nowS, gridOf, midOf) {
    this.note.textContent = problem || (order ? "" : `${file} does not exist yet: the execution has not begun.`);
    this.note.hidden = !this.note.textContent;
    for (const part of [this.bar, this.list, this.chart.element]) part.hidden = !order;
    if (!order) return;
    const [start, end] = [order.start_ns / 1e9, order.end_ns / 1e9];
    const now = ended ? end : Math.min(Math.max(nowS ?? start, start), end);
    const grid = gridOf(order.symbol);
    this.title.textContent = `${order.participant === order.policy ? "" : `${order.participant}: `}${order.policy} ${order.side ? "sells" : "buys"} ${count.format(order.qty_lots)} ${order.symbol}`;
    this.bar.max = order.qty_lots;
    this.bar.value = filled;
    const behind = scheduledLots(schedule, now) - filled;
    facts(this.list, [
      ["filled", `${count.format(filled)}/${count.format(order.qty_lots)}`],
      ["schedule", Math.abs(behind) < 0.5 ? "on time" : `${count.format(Math.abs(behind))} ${behind > 0 ? "behind" : "ahead"}`, behind > order.qty_lots * 0.1 ? "warn" : ""],
      ["average", grid?.average(average) ?? "–"],
      ["window", `${timeOfDay(start).slice(0, 5)}–${timeOfDay(end).slice(0, 5)}`],
      ["position", count.format(order.side ? 0 - filled : filled)],
      ["profit at mid", profit(filled, average, midOf(order.symbol), order.side, grid)],
      ["state", ended ? (ended.unfilled_lots ? `ended, ${count.format(ended.unfilled_lots)} forced` : "ended") : nowS < start ? "waiting" : "working"],
    ]);
    const times = [...new Map([[start, 0], ...schedule, ...fills, [now, filled]].map((row) => [row[0], row])).keys()].sort((a, b) => a - b);
    const filledByTime = new Map(fills.map((fill) => [fill[0], fill[3]]));
    let lastFilled = 0;
    const filledAt = times.map((time) => (time > now && !filledByTime.has(time) ? null : (lastFilled = filledByTime.get(time) ?? lastFilled)));
    this.chart.set([times, times.map((time) => scheduledLots(schedule, time)), filledAt]);
  }
}

function profit(filled, average, mid, side, grid) {
  if (!filled || mid == null || !grid) return "–";
  return grid.money((side ? average - mid : mid - average) * filled);
}
