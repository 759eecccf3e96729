// The market page: frames come in, are kept, and drawn when the screen is ready for them.
import { Connection } from "./connection.js";
import { drawAccount } from "./account.js";
import { Executions } from "./executions.js";
import { facts, Grid, haltText, joined, make, phaseText, timeOfDay } from "./format.js";
import { HeatMap } from "./heatmap.js";
import { Ladder } from "./ladder.js";
import { MarketCharts } from "./market.js";
import { Operator } from "./operate.js";
import { Past } from "./past.js";
import { Store } from "./store.js";
import { sideOf, Tape } from "./tape.js";
import { TraderFlow } from "./traders.js";
import { Vitals } from "./vitals.js";

const element = (id) => document.getElementById(id);
const DAY_NS = 86_400_000_000_000n;
const EVERYTHING = ["book", "trades", "columns", "traders", "exchange", "market", "account", "executions", "pages"];
const store = new Store();
const changed = new Set();
let frozen = false;
let drawn = 0;
let due = false;

const connection = new Connection(onFrame, onOpen);
const tape = new Tape(element("tape"));
const past = new Past(element("past"), element("past-time"), element("now"), store, onLook);
const heat = new HeatMap(element("heat"), element("heat-hover"), (column) => past.look(past.oldest + store.columns.indexOf(column)));
const charts = new MarketCharts(element);
const traders = new TraderFlow(element("flow-panel"), element("flow"), element("flow-hint"));
const vitals = new Vitals(element("vitals"), element("load"));
const operator = new Operator(element("replay"), element("operate"), connection, store, say);
const ladder = new Ladder(element("ladder"), (price, side) => operator.pick(price, side));
const executions = new Executions(element("executions"));

function onFrame(frame) {
  for (const part of store.take(frame)) changed.add(part);
  drawn = frame.n;
  if (frozen) connection.say({ seen: drawn });
  else schedule();
}

function onOpen(open) {
  if (open && store.symbol) connection.say({ symbol: store.symbol });
  for (const part of EVERYTHING) changed.add(part);
  schedule();
}

/** The page goes on when it was frozen: it is to show another moment. */
function onLook() {
  if (frozen) freeze();
  for (const part of ["book", "trades", "columns"]) changed.add(part);
  schedule();
}

function schedule() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
    draw();
    connection.say({ seen: drawn });
  });
}

function grid(name = store.symbol) {
  const found = store.sections.market?.symbols.find((symbol) => symbol[0] === name);
  return found && new Grid(found[1], found[2]);
}

function mid(name) {
  const last = name === store.symbol ? store.columns.at(-1) : null;
  return last?.bid != null && last?.ask != null ? (last.bid + last.ask) / 2 : null;
}

function draw() {
  const parts = new Set(changed);
  changed.clear();
  const now = grid();
  const then = past.column;
  if (parts.has("pages")) drawPages();
  if (parts.has("market") || parts.has("book")) drawSymbols();
  drawState(then);
  if (parts.has("exchange")) {
    const exchange = store.sections.exchange;
    if (exchange) vitals.draw(exchange);
    operator.draw(now);
  }
  if (parts.has("account") && store.sections.account) {
    element("account").hidden = false;
    drawAccount(element("account-body"), store.sections.account, store.sections.market);
  }
  if ((parts.has("executions") || parts.has("columns")) && store.sections.executions) executions.draw(store.sections.executions, store.columns.at(-1)?.t, grid, mid);
  if (!now) return;
  if (parts.has("book") && store.book) drawBook(then ?? store.book, now);
  if (parts.has("trades") || parts.has("book")) tape.draw(store, now, then);
  if (parts.has("traders")) traders.draw(store.traders);
  if (parts.has("columns")) {
    past.draw();
    heat.draw(store.columns, now, then);
    charts.draw(store.columns, now, then);
  }
}

function drawBook(book, now) {
  ladder.draw(book, now);
  const [bid, ask] = [book.bids[0], book.asks[0]];
  const last = element("last");
  last.textContent = now.price(book.last);
  last.className = `last ${store.trades.length ? sideOf(store.trades.at(-1)) : ""}`;
  facts(element("quote"), [
    ["bid", bid ? now.price(bid[0]) : "–", "buy"],
    ["ask", ask ? now.price(ask[0]) : "–", "sell"],
    book.indicative ? ["auction", now.price(book.indicative[0] || null), "phase"] : ["spread", bid && ask ? now.price(ask[0] - bid[0]) : "–"],
  ]);
}

function drawPages() {
  if (store.sections.pages?.researcher && !element("pages").querySelector("[href=researcher]")) {
    const link = make("a", "", "Researcher");
    link.setAttribute("href", "researcher");
    element("pages").append(link);
  }
}

function drawSymbols() {
  const names = (store.sections.market?.symbols ?? []).map((symbol) => symbol[0]);
  const select = element("symbol");
  if (names.join() !== [...select.options].map((option) => option.value).join()) select.replaceChildren(...names.map((name) => new Option(name, name)));
  if (store.symbol) {
    select.value = store.symbol;
    document.title = `${store.symbol} · serl`;
  }
}

function drawState(then = past.column) {
  const exchange = store.sections.exchange;
  const chip = element("state");
  const halted = haltText(store.book);
  const phase = phaseText(store.book?.phase);
  const held = exchange?.clock?.settable && !exchange.clock.running;
  const [name, text] = !connection.open ? ["away", "dashboard away"] : !exchange || exchange.away ? ["away", "exchange away"] : halted ? ["halted", joined(halted, phase)] : held ? ["held", joined("held", phase)] : phase ? ["phase", phase] : ["live", exchange.clock?.kind ?? "live"];
  const apart = frozen ? "frozen" : then ? "looking back" : "";
  chip.className = `chip ${apart ? "frozen" : name}`;
  chip.textContent = apart || text;
  const notice = element("notice");
  const { failed } = store.sections;
  notice.hidden = !failed && (name !== "away" || !exchange);
  notice.textContent = failed ? failed : connection.open ? `No exchange answers at ${exchange?.endpoint}. ${exchange?.clock ? "What is shown is how it was; the" : "The"} page goes on when the exchange is ${exchange?.clock ? "back" : "there"}.` : "The dashboard does not answer. The page goes on when it is back.";
  if (then) element("clock").textContent = timeOfDay(then.t);
  else if (exchange?.clock) element("clock").textContent = timeOfDay(Number(BigInt(exchange.clock.time_ns) % DAY_NS) / 1e9);
  document.body.classList.toggle("stale", name === "away");
}

let sayTimer = 0;
function say(text, failed) {
  let toast = document.querySelector(".toast");
  if (!toast) document.body.append((toast = make("p", "toast")));
  toast.setAttribute("role", "status");
  toast.textContent = text;
  toast.className = `toast ${failed ? "failed" : ""}`;
  clearTimeout(sayTimer);
  sayTimer = setTimeout(() => toast.remove(), failed ? 12_000 : 4000);
}

function freeze() {
  frozen = !frozen;
  element("freeze").setAttribute("aria-pressed", frozen);
  element("freeze").textContent = frozen ? "Go on" : "Freeze";
  if (frozen) drawState();
  else schedule();
}

function lookAt(name) {
  store.clear(name);
  connection.say({ symbol: name });
}

function neighbour(step) {
  const names = [...element("symbol").options].map((option) => option.value);
  if (names.length > 1) lookAt(names[(names.indexOf(store.symbol) + step + names.length) % names.length]);
}

element("freeze").addEventListener("click", freeze);
element("theme").addEventListener("click", () => document.dispatchEvent(new Event("switch-theme")));
element("keys").addEventListener("click", () => element("help").showModal());
element("symbol").addEventListener("change", (event) => lookAt(event.target.value));
document.addEventListener("theme", () => {
  for (const part of EVERYTHING) changed.add(part);
  schedule();
});
new ResizeObserver(() => {
  changed.add("columns");
  schedule();
}).observe(element("heat"));

const KEYS = {
  " ": freeze,
  "[": () => neighbour(-1),
  "]": () => neighbour(1),
  ArrowLeft: () => past.step(-1),
  ArrowRight: () => past.step(1),
  Escape: () => past.leave(),
  h: () => operator.toggleClock(),
  t: () => document.dispatchEvent(new Event("switch-theme")),
  "?": () => element("help").showModal(),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  if (event.key === " " && event.target.closest("button, a")) return; // it presses them
  const action = KEYS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});
