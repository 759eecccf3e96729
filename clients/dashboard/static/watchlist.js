// All symbols of the exchange in one table; a click shows the symbol. Hidden if there is only one.
import { compact, haltText, joined, make, phaseText } from "./format.js";

const HEAD = ["symbol", "last", "change", "%", "bid", "ask", "spread", "lots", "phase"];

export class Watchlist {
  /** onPick(name) is called with a clicked symbol. */
  constructor(panel, element, onPick) {
    Object.assign(this, { panel, onPick, rows: new Map() });
    const table = make("table");
    const head = make("tr");
    head.append(...HEAD.map((name) => make("th", "", name)));
    table.append(make("thead"), make("tbody"));
    table.firstChild.append(head);
    this.body = table.lastChild;
    element.append(table);
  }

  draw(watch, symbols, selected, gridOf) {
    const shown = symbols.length > 1;
    this.panel.hidden = !shown;
    this.panel.parentElement.classList.toggle("watched", shown);
    if (!shown) return;
    const names = symbols.map(([name]) => name);
    if (names.join() !== [...this.rows.keys()].join()) {
      this.rows = new Map(names.map((name) => [name, this.row(name)]));
      this.body.replaceChildren(...this.rows.values());
    }
    for (const [name, ...values] of watch) {
      const [row, grid] = [this.rows.get(name), gridOf(name)];
      if (row && grid) fill(row, values, grid);
    }
    for (const [name, row] of this.rows) {
      if (name === selected) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
  }

  row(name) {
    const row = make("tr");
    const pick = make("button", "", name);
    pick.type = "button";
    row.dataset.symbol = name;
    row.append(...HEAD.map(() => make("td")));
    row.firstChild.append(pick);
    row.addEventListener("click", () => this.onPick(name)); // the button's clicks, too
    return row;
  }
}

function fill(row, [last, change, bid, ask, lots, halted, phase, reason], grid) {
  const first = last - change;
  const sign = change > 0 ? "+" : "";
  const texts = [
    grid.price(last),
    change === null ? "–" : sign + grid.price(change),
    change === null ? "–" : `${sign}${((100 * change) / first).toFixed(2)}`,
    grid.price(bid),
    grid.price(ask),
    bid === null || ask === null ? "–" : grid.price(ask - bid),
    compact(lots),
    joined(haltText({ halted, reason }), phaseText(phase)) || "–",
  ];
  texts.forEach((text, place) => {
    const cell = row.children[place + 1];
    if (cell.textContent !== text) cell.textContent = text;
  });
  for (const place of [2, 3]) row.children[place].className = change > 0 ? "buy" : change < 0 ? "sell" : "";
  row.lastChild.className = halted ? "sell" : phaseText(phase) ? "phase" : "";
}
