// The depth ladder: fixed rows, asks above bids, a bar for the lots of each level.
import { compact, count, make } from "./format.js";

const LEVELS = 14;

export class Ladder {
  constructor(element, onPick) {
    this.asks = [];
    this.bids = [];
    const head = make("div", "row head");
    for (const text of ["orders", "lots", "price"]) head.append(make("span", "", text));
    element.append(head);
    const build = (side, rows) => {
      for (let level = 0; level < LEVELS; level++) {
        const row = make("button", `row level ${side}`);
        row.type = "button";
        row.tabIndex = -1;
        row.append(make("span"), make("span"), make("span", "price"));
        row.addEventListener("click", () => row.dataset.price && onPick(Number(row.dataset.price), side));
        rows.push(row);
      }
    };
    build("ask", this.asks);
    build("bid", this.bids);
    this.middle = make("div", "row middle");
    element.append(...this.asks.toReversed(), this.middle, ...this.bids);
  }

  draw(book, grid) {
    const shown = [...book.asks.slice(0, LEVELS), ...book.bids.slice(0, LEVELS)];
    const most = Math.max(1, ...shown.map((level) => level[1]));
    this.fill(this.asks, book.asks, most, grid);
    this.fill(this.bids, book.bids, most, grid);
    const [bid, ask] = [book.bids[0]?.[0], book.asks[0]?.[0]];
    const spread = bid != null && ask != null ? ask - bid : null;
    this.middle.textContent = book.halted ? "halted" : spread == null ? "one side is empty" : `spread ${grid.price(spread)} · ${count.format(spread)} tick${spread === 1 ? "" : "s"}`;
    this.middle.classList.toggle("halted", book.halted === true);
  }

  fill(rows, levels, most, grid) {
    rows.forEach((row, index) => {
      const level = levels[index];
      const [orders, lots, price] = row.children;
      row.classList.toggle("empty", !level);
      row.dataset.price = level ? level[0] : "";
      row.dataset.lots = level ? level[1] : "";
      orders.textContent = level ? compact(level[2]) : "";
      lots.textContent = level ? compact(level[1]) : "";
      price.textContent = level ? grid.price(level[0]) : "";
      row.style.setProperty("--share", level ? (level[1] / most).toFixed(3) : "0");
    });
  }
}
