// The last messages of the news channel, newest first.
import { make, timeOfDay } from "./format.js";

const DECIMALS = 4;

export class NewsPanel {
  constructor(panel, rows) {
    this.panel = panel;
    this.rows = rows;
  }

  /** messages: [[sequence, time_s, kind, symbol, headline, value, source], ...]; a value of kind `value` is in ticks. */
  draw(messages, gridOf) {
    this.panel.hidden = !messages.length;
    this.rows.replaceChildren(...messages.map(([sequence, time, kind, symbol, headline, value, source]) => {
      const row = make("div", "message");
      row.dataset.sequence = sequence;
      const head = make("div", "head");
      head.append(make("time", "", timeOfDay(time)), make("span", "tag", kind));
      if (symbol) head.append(make("span", "who", symbol));
      const grid = kind === "value" ? gridOf(symbol) : undefined;
      if (value != null) head.append(make("span", "value", grid ? grid.price(value) : String(Number(value.toFixed(DECIMALS)))));
      if (source) head.append(make("span", "hint", source));
      row.append(head);
      if (headline) row.append(make("p", "", headline));
      return row;
    }));
  }
}
