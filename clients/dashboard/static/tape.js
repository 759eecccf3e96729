// The trades, newest on top.
import { count, make, timeOfDay } from "./format.js";

const ROWS = 60;
const [PRINTED, CROSSED] = [1, 2];

export class Tape {
  constructor(element) {
    this.element = element;
    this.seen = 0;
  }

  /** The newest, or those until `then`, a column. */
  draw(store, grid, then) {
    if (then) {
      this.drawUntil(then, store.trades, grid);
      return;
    }
    if (store.tradesSeen < this.seen || this.symbol !== store.symbol || !store.trades.length) {
      this.element.replaceChildren();
      this.seen = 0;
    }
    this.symbol = store.symbol;
    const fresh = store.trades.slice(-Math.min(store.tradesSeen - this.seen, ROWS) || store.trades.length);
    if (store.tradesSeen > this.seen) this.element.prepend(...fresh.toReversed().map((trade) => row(trade, grid)));
    while (this.element.children.length > ROWS) this.element.lastChild.remove();
    this.seen = store.tradesSeen;
  }

  drawUntil({ match }, trades, grid) {
    const rows = trades.filter((trade) => trade[0] <= match).slice(-ROWS);
    this.element.replaceChildren(...(rows.length || !match ? [] : [make("p", "note", "The trades until then are no longer kept.")]), ...rows.toReversed().map((trade) => row(trade, grid)));
    this.symbol = null; // so that all is drawn anew afterwards
  }
}

/** The class of a trade: who took, where somebody did. */
export function sideOf([, , , , side, offBook]) {
  return offBook === CROSSED ? "phase" : side === 0 ? "buy" : "sell";
}

function row(trade, grid) {
  const [match, time, price, lots, , offBook] = trade;
  const element = make("div", `row trade ${sideOf(trade)}${offBook === PRINTED ? " off" : ""}`);
  element.dataset.match = match;
  element.append(make("span", "time", timeOfDay(time)), make("span", "", count.format(lots)), make("span", "price", grid.price(price)));
  if (offBook) element.title = offBook === CROSSED ? "in an auction" : "outside the visible book";
  return element;
}
