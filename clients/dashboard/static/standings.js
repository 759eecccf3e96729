// Who has made how much at the mid: participants, which only operators get, and kinds of simulated traders.
import { count, make } from "./format.js";

const money = new Intl.NumberFormat("en", { maximumFractionDigits: 2, minimumFractionDigits: 2, signDisplay: "exceptZero" });
const SYMBOLS = 3;

/** A note, and a table that scrolls by itself. */
class Ranking {
  constructor(panel, element, label) {
    this.panel = panel;
    this.note = make("p", "note");
    this.list = make("div", "standings");
    this.list.tabIndex = 0;
    this.list.ariaLabel = label;
    this.list.setAttribute("role", "group");
    this.table = make("table");
    this.list.append(this.table);
    element.append(this.note, this.list);
  }

  fill(note, head, rows) {
    this.note.textContent = note;
    this.note.hidden = !note;
    this.list.hidden = !rows.length;
    const first = make("tr");
    first.append(...head.map((text) => make("th", "", text)));
    this.table.replaceChildren(first, ...rows);
  }
}

export class Standings extends Ranking {
  constructor(panel, element) {
    super(panel, element, "Participants by profit");
  }

  draw(standings) {
    this.panel.hidden = !standings;
    if (!standings) return;
    const { problem, participants, rows } = standings;
    const note = problem || (participants > rows.length ? `${rows.length} of ${count.format(participants)}` : rows.length ? "" : "no balances yet");
    const withFees = rows.some(([, , fees]) => fees);
    this.fill(note, ["name", "position", "profit", ...(withFees ? ["fees"] : [])], rows.map((row) => line(row, withFees)));
  }
}

function line([name, profit, fees, positions], withFees) {
  const held = Object.entries(positions);
  const text = held.length === 1 ? count.format(held[0][1]) : held.length ? `${held.length} symbols` : "0";
  const row = cells([name, text, money.format(profit), ...(withFees ? [fees.toFixed(2)] : [])], 2, profit);
  row.title = [name, ...held.slice(0, SYMBOLS).map(([symbol, lots]) => `${count.format(lots)} ${symbol}`), held.length > SYMBOLS ? "…" : ""].filter(Boolean).join(" · ");
  return row;
}

export class Kinds extends Ranking {
  constructor(panel, element) {
    super(panel, element, "Kinds of traders by profit");
  }

  /** accounts: by kind [traders, position in lots, cash in ticks x lots]. */
  draw(accounts, mid, grid) {
    const rows = Object.entries(accounts).map(([kind, [traders, position, cash]]) => ({ kind, traders, position, profit: position && mid === null ? null : cash + position * (mid ?? 0) }));
    this.panel.hidden = !rows.length;
    if (!rows.length) return;
    rows.sort((a, b) => b.profit - a.profit);
    const line = ({ kind, traders, position, profit }) => cells([kind.replaceAll("_", " "), count.format(traders), count.format(position), grid.money(profit)], 3, profit);
    this.fill("", ["kind", "traders", "position", "profit"], rows.map(line));
  }
}

/** A row; the profit at `place` in colour. */
function cells(texts, place, profit) {
  const row = make("tr");
  row.title = texts[0]; // a narrow table cuts long names
  row.append(...texts.map((text, index) => make("td", index === place ? (profit > 0 ? "buy" : profit < 0 ? "sell" : "") : "", text)));
  return row;
}
