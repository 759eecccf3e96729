// The dashboard's account: positions and profit, open orders with a button that cancels each, its own trades.
import { count, make, timeOfDay } from "./format.js";

const BOUGHT = ["bought", "sold"];
const BUY = ["buy", "sell"];

export class AccountPanel {
  constructor(panel, body, operator) {
    Object.assign(this, { panel, operator, orderRows: new Map() });
    this.note = make("p", "note");
    this.positions = make("table");
    this.ordersTitle = make("h3");
    this.orders = list("Open orders");
    this.tradesTitle = make("h3", "", "Own trades");
    this.trades = list("Own trades");
    body.append(this.note, this.positions, this.ordersTitle, this.orders, this.tradesTitle, this.trades);
  }

  draw(account, gridOf) {
    this.panel.hidden = !account;
    if (!account) return;
    this.note.textContent = `${account.name} · ${account.live ? "logged in" : account.problem || "logging in"}${account.live && account.problem ? ` · ${account.problem}` : ""}${account.rows.length ? "" : " · no fills yet"}`;
    this.drawPositions(account.rows, gridOf);
    this.ordersTitle.textContent = account.open > account.orders.length ? `${count.format(account.open)} open orders, the oldest ${account.orders.length}` : "Open orders";
    this.ordersTitle.hidden = this.orders.hidden = !account.open;
    this.drawOrders(account.orders, gridOf);
  }

  drawPositions(rows, gridOf) {
    const withFees = rows.some((row) => row.fees);
    this.positions.replaceChildren(line("th", ["symbol", "position", "profit", ...(withFees ? ["fees"] : [])]));
    for (const row of rows) {
      const grid = gridOf(row.symbol);
      const cells = line("td", [row.symbol, count.format(row.position), grid?.money(row.profit) ?? "–", ...(withFees ? [grid?.money(row.fees / 1e6).replace("+", "") ?? "–"] : [])]);
      cells.children[2].className = row.profit > 0 ? "buy" : row.profit < 0 ? "sell" : "";
      this.positions.append(cells);
    }
    this.positions.hidden = !rows.length;
  }

  /** Rows stay the same elements while their orders are open: a button that is replaced under the pointer cannot be clicked. */
  drawOrders(orders, gridOf) {
    const open = new Set(orders.map(([id]) => id));
    for (const [id, row] of this.orderRows) {
      if (open.has(id)) continue;
      row.remove();
      this.orderRows.delete(id);
    }
    for (const [id, symbol, side, lots, price] of orders) {
      if (!this.orderRows.has(id)) this.orderRows.set(id, this.orders.appendChild(this.orderRow(id, BUY[side])));
      const texts = [BUY[side], `${count.format(lots)} ${symbol}`, price === null ? "no limit" : (gridOf(symbol)?.price(price) ?? "")];
      texts.forEach((text, place) => {
        this.orderRows.get(id).children[place].textContent = text;
      });
    }
  }

  orderRow(id, side) {
    const row = make("div", `row trade ${side}`);
    row.dataset.order = id;
    const cancel = make("button", "", "Cancel");
    cancel.type = "button";
    cancel.ariaLabel = `Cancel order ${id}`;
    cancel.disabled = !this.operator.connection.token;
    if (cancel.disabled) cancel.title = "Only the operator can cancel orders";
    cancel.addEventListener("click", () => this.operator.act("cancel", { order: id }));
    row.append(make("span"), make("span"), make("span", "price"), cancel);
    return row;
  }

  drawTrades(trades, gridOf) {
    this.tradesTitle.hidden = this.trades.hidden = !trades.length;
    this.trades.replaceChildren(
      ...trades.toReversed().map(([symbol, match, time, side, lots, price, role]) => {
        const row = make("div", `row trade ${BUY[side]}`);
        row.dataset.match = match;
        row.title = `${BOUGHT[side]} ${count.format(lots)} ${symbol} at ${gridOf(symbol)?.price(price) ?? ""}, ${timeOfDay(time, 3)}, ${role}`;
        row.append(make("span", "time", timeOfDay(time)), make("span", "", `${side ? "−" : "+"}${count.format(lots)} ${symbol}`), make("span", "price", gridOf(symbol)?.price(price) ?? ""), make("span", "", role));
        return row;
      }),
    );
  }
}

function list(label) {
  const element = make("div", "own");
  element.tabIndex = 0;
  element.ariaLabel = label;
  element.setAttribute("role", "group");
  return element;
}

function line(tag, texts) {
  const row = make("tr");
  row.append(...texts.map((text) => make(tag, "", text)));
  return row;
}
