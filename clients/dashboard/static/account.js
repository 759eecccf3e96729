// Positions and profit of the dashboard's account.
import { count, PriceFormat, make } from "./format.js";

export function drawAccount(body, account, market) {
  const grids = Object.fromEntries((market?.symbols ?? []).map(([name, tick, lot]) => [name, new PriceFormat(tick, lot)]));
  const parts = [make("p", "note", `${account.name} · ${account.live ? "logged in" : account.problem || "logging in"}`)];
  if (account.rows.length) {
    const table = make("table");
    table.append(line("th", ["symbol", "position", "profit"]));
    for (const row of account.rows) {
      const grid = grids[row.symbol];
      const cells = line("td", [row.symbol, count.format(row.position), grid ? grid.money(row.profit) : "–"]);
      cells.lastChild.className = row.profit > 0 ? "buy" : row.profit < 0 ? "sell" : "";
      table.append(cells);
    }
    parts.push(table);
  } else {
    parts.push(make("p", "note", "no fills yet"));
  }
  const fills = make("div", "rows fills");
  for (const [symbol, match, side, lots, price] of account.fills.toReversed()) {
    const row = make("div", `row trade ${side === 0 ? "buy" : "sell"}`);
    row.dataset.match = match;
    row.append(make("span", "", `${side === 0 ? "bought" : "sold"} ${symbol}`), make("span", "", count.format(lots)), make("span", "price", grids[symbol]?.price(price) ?? ""));
    fills.append(row);
  }
  body.replaceChildren(...parts, fills);
}

function line(tag, texts) {
  const row = make("tr");
  row.append(...texts.map((text) => make(tag, "", text)));
  return row;
}
