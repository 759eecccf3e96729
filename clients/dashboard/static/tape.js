// The list of trades, newest on top.
import { count, make, timeOfDay } from "./format.js";

const ROWS = 60;
const [PRINTED, CROSSED] = [1, 2];

export class Tape {
  constructor(element) {
    this.element = element;
    this.seen = 0;
  }

  /** Draws the newest trades, or those up to the selected column. */
  draw(store, grid, selected) {
    if (selected) {
      this.drawUntil(selected, store.trades, grid);
      return;
    }
    if (store.clears !== this.clears) {
      this.element.replaceChildren();
      this.seen = 0;
    }
    this.clears = store.clears;
    const fresh = store.trades.slice(-Math.min(store.tradesSeen - this.seen, ROWS) || store.trades.length);
    if (store.tradesSeen > this.seen) this.element.prepend(...fresh.toReversed().map((trade) => row(trade, grid)));
    while (this.element.children.length > ROWS) this.element.lastChild.remove();
    this.seen = store.tradesSeen;
  }

  drawUntil({ match }, trades, grid) {
    const rows = trades.filter((trade) => trade[0] <= match).slice(-ROWS);
    this.element.replaceChildren(...(rows.length || !match ? [] : [make("p", "note", "The trades up to then are no longer stored.")]), ...rows.toReversed().map((trade) => row(trade, grid)));
    this.clears = null; // so that the next draw redraws everything
  }
}

/** The CSS class of a trade: the side of its aggressor, or an auction. */
export function sideOf([, , , , side, offBook]) {
  return offBook === CROSSED ? "phase" : side === 0 ? "buy" : "sell";
}

function row(trade, grid) {
  const [match, time, price, lots, , offBook] = trade;
  const element = make("div", `row trade ${sideOf(trade)}${offBook === PRINTED ? " off" : ""}`);
  element.dataset.match = match;
  element.append(make("span", "time", timeOfDay(time)), make("span", "", count.format(lots)), make("span", "price", grid.price(price)));
  if (offBook) element.title = offBook === CROSSED ? "in an auction" : "outside the displayed book";
  return element;
}
