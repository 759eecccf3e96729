// Participants by profit at the mid; only operators get them.
import { count, make } from "./format.js";

const money = new Intl.NumberFormat("en", { maximumFractionDigits: 2, minimumFractionDigits: 2, signDisplay: "exceptZero" });
const SYMBOLS = 3;

export class Standings {
  constructor(panel, element) {
    this.panel = panel;
    this.note = make("p", "note");
    this.list = make("div", "standings");
    this.list.tabIndex = 0;
    this.list.ariaLabel = "Participants by profit";
    this.list.setAttribute("role", "group");
    this.table = make("table");
    this.list.append(this.table);
    element.append(this.note, this.list);
  }

  draw(standings) {
    this.panel.hidden = !standings;
    if (!standings) return;
    const { problem, participants, rows } = standings;
    this.note.textContent = problem || (participants > rows.length ? `${rows.length} of ${count.format(participants)}` : rows.length ? "" : "nobody has traded yet");
    this.note.hidden = !this.note.textContent;
    this.list.hidden = !rows.length;
    const withFees = rows.some(([, , fees]) => fees);
    const head = make("tr");
    head.append(...["name", "position", "profit", ...(withFees ? ["fees"] : [])].map((text) => make("th", "", text)));
    this.table.replaceChildren(head, ...rows.map((row) => line(row, withFees)));
  }
}

function line([name, profit, fees, positions], withFees) {
  const row = make("tr");
  const held = Object.entries(positions);
  const text = held.length === 1 ? count.format(held[0][1]) : held.length ? `${held.length} symbols` : "0";
  row.title = [name, ...held.slice(0, SYMBOLS).map(([symbol, lots]) => `${count.format(lots)} ${symbol}`), held.length > SYMBOLS ? "…" : ""].filter(Boolean).join(" · ");
  row.append(make("td", "", name), make("td", "", text), make("td", profit > 0 ? "buy" : profit < 0 ? "sell" : "", money.format(profit)), ...(withFees ? [make("td", "", fees.toFixed(2))] : []));
  return row;
}
