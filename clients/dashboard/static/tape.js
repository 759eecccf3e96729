// The trades, newest on top.
import { count, make, timeOfDay } from "./format.js";

const ROWS = 60;

export class Tape {
  constructor(element) {
    this.element = element;
    this.seen = 0;
  }

  draw(store, grid) {
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
}

function row([match, time, price, lots, side, offBook], grid) {
  const element = make("div", `row trade ${side === 0 ? "buy" : "sell"}${offBook ? " off" : ""}`);
  element.dataset.match = match;
  element.append(make("span", "time", timeOfDay(time)), make("span", "", count.format(lots)), make("span", "price", grid.price(price)));
  if (offBook) element.title = "outside the visible book";
  return element;
}
