// The ladder of the book: fixed rows, asks above bids, a bar for the lots of each level.
import { compact, count, haltText, joined, make, phaseText } from "./format.js";

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
    this.middle.append(make("span"), make("span"));
    element.append(...this.asks.toReversed(), this.middle, ...this.bids);
  }

  draw(book, grid) {
    const shown = [...book.asks.slice(0, LEVELS), ...book.bids.slice(0, LEVELS)];
    const maxLots = Math.max(1, ...shown.map((level) => level[1]));
    this.fill(this.asks, book.asks, maxLots, grid);
    this.fill(this.bids, book.bids, maxLots, grid);
    const [price, volume, imbalance] = book.indicative ?? [0, 0, 0];
    this.mark(this.asks, (ask) => ask <= price);
    this.mark(this.bids, (bid) => price && bid >= price);
    const phase = phaseText(book.phase);
    const first = joined(haltText(book), phase, price && grid.price(price)) || spread(book, grid);
    const second = price ? `${compact(volume)} lots · ${imbalanceText(imbalance)}` : book.indicative ? "nothing crosses" : "";
    [first, second].forEach((text, index) => {
      this.middle.children[index].textContent = text;
    });
    this.middle.title = price ? "If the auction were held now: its price, its lots, and the imbalance at that price" : "";
    this.middle.classList.toggle("halted", book.halted === true);
    this.middle.classList.toggle("phase", phase !== "");
  }

  /** Marks the levels that would trade in an auction now. */
  mark(rows, trades) {
    for (const row of rows) row.classList.toggle("trades", row.dataset.price !== "" && Boolean(trades(Number(row.dataset.price))));
  }

  fill(rows, levels, maxLots, grid) {
    rows.forEach((row, index) => {
      const level = levels[index];
      const [orders, lots, price] = row.children;
      row.classList.toggle("empty", !level);
      row.dataset.price = level ? level[0] : "";
      row.dataset.lots = level ? level[1] : "";
      orders.textContent = level ? compact(level[2]) : "";
      lots.textContent = level ? compact(level[1]) : "";
      price.textContent = level ? grid.price(level[0]) : "";
      row.style.setProperty("--share", level ? (level[1] / maxLots).toFixed(3) : "0");
    });
  }
}

function spread({ bids: [bid], asks: [ask] }, grid) {
  if (!bid || !ask) return "one side is empty";
  const ticks = ask[0] - bid[0];
  return `spread ${grid.price(ticks)} · ${count.format(ticks)} tick${ticks === 1 ? "" : "s"}`;
}

/** The imbalance of an auction: lots more to buy or to sell. */
function imbalanceText(imbalance) {
  return imbalance ? `${compact(Math.abs(imbalance))} more to ${imbalance > 0 ? "buy" : "sell"}` : "both sides even";
}
