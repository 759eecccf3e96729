// The market page: stores the frames of the server and draws what has changed, once per screen refresh.
import { Connection } from "./connection.js";
import { AccountPanel } from "./account.js";
import { PriceCandles } from "./candles.js";
import { Executions } from "./executions.js";
import { facts, PriceFormat, haltText, joined, make, phaseText, speedText, timeOfDay } from "./format.js";
import { HeatMap } from "./heatmap.js";
import { Ladder } from "./ladder.js";
import { NewsPanel } from "./news.js";
import { LookBack } from "./look_back.js";
import { MarketCharts } from "./market.js";
import { Operator } from "./operate.js";
import { Kinds, Standings } from "./standings.js";
import { Store } from "./store.js";
import { sideOf, Tape } from "./tape.js";
import { TraderFlow } from "./traders.js";
import { Vitals } from "./vitals.js";
import { Watchlist } from "./watchlist.js";

const element = (id) => document.getElementById(id);
const DAY_NS = 86_400_000_000_000n;
const DAY_S = 86_400;
const ALL_PARTS = ["book", "trades", "columns", "candles", "traders", "exchange", "market", "account", "account_trades", "executions", "watch", "standings", "news", "pages"];
const store = new Store();
const changed = new Set();
let frozen = false;
let drawn = 0;
let scheduled = false;

const connection = new Connection(onFrame, onOpen);
const tape = new Tape(element("tape"));
const lookBack = new LookBack(element("look-back"), element("look-back-time"), element("now"), store, onSelect);
const heat = new HeatMap(element("heat"), element("heat-hover"), (column) => lookBack.select(lookBack.oldest + store.columns.indexOf(column)));
const charts = new MarketCharts(element);
const candles = new PriceCandles(element("price-panel"), element("price"));
const traders = new TraderFlow(element("flow-panel"), element("flow"), element("flow-hint"));
const vitals = new Vitals(element("vitals"), element("load"));
const operator = new Operator(element("replay"), element("operate"), connection, store, showToast);
const account = new AccountPanel(element("account"), element("account-body"), operator);
const ladder = new Ladder(element("ladder"), (price, side) => operator.pick(price, side));
const watchlist = new Watchlist(element("watch"), element("watch-rows"), selectSymbol);
const standings = new Standings(element("standings"), element("standings-rows"));
const news = new NewsPanel(element("news"), element("news-rows"));
const kinds = new Kinds(element("kinds"), element("kinds-rows"));
const executions = new Executions(element("executions"));

function onFrame(frame) {
  for (const part of store.apply(frame)) changed.add(part);
  drawn = frame.n;
  if (frozen) connection.send({ seen: drawn });
  else schedule();
}

function onOpen(open) {
  if (open && store.symbol) connection.send({ symbol: store.symbol });
  if (open && connection.token) connection.act("standings").catch((error) => showToast(error.message, true));
  for (const part of ALL_PARTS) changed.add(part);
  schedule();
}

/** Selecting another moment unfreezes the page. */
function onSelect() {
  if (frozen) freeze();
  for (const part of ["book", "trades", "columns", "candles"]) changed.add(part);
  schedule();
}

function schedule() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    draw();
    connection.send({ seen: drawn });
  });
}

/** How to format the prices of a symbol; undefined before the first frame. */
function grid(name = store.symbol) {
  const symbol = store.sections.market?.symbols.find(([symbolName]) => symbolName === name);
  return symbol && new PriceFormat(symbol[1], symbol[2]);
}

function mid(name) {
  const last = name === store.symbol ? store.columns.at(-1) : null;
  return last?.bid != null && last?.ask != null ? (last.bid + last.ask) / 2 : null;
}

/** The time of day at the newest column, in seconds; undefined before the first. */
function nowS() {
  const last = store.columns.at(-1);
  return last && last.t % DAY_S;
}

function draw() {
  const parts = new Set(changed);
  changed.clear();
  const prices = grid();
  const selected = lookBack.column;
  if (parts.has("pages")) drawPages();
  if (parts.has("market") || parts.has("book")) drawSymbols();
  drawState(selected);
  if (parts.has("exchange")) {
    const exchange = store.sections.exchange;
    if (exchange) vitals.draw(exchange);
    operator.draw(prices);
  }
  if (parts.has("account") || parts.has("market")) account.draw(store.sections.account, grid);
  if (parts.has("account_trades") || parts.has("market")) account.drawTrades(store.sections.account_trades ?? [], grid);
  if ((parts.has("executions") || parts.has("columns")) && store.sections.executions) executions.draw(store.sections.executions, nowS(), grid, mid);
  if (parts.has("watch") || parts.has("market") || parts.has("columns")) watchlist.draw(store.sections.watch ?? [], store.sections.market?.symbols ?? [], store.symbol, grid);
  if (parts.has("standings")) standings.draw(store.sections.standings);
  if (parts.has("news") || parts.has("market")) news.draw(store.sections.news ?? [], grid);
  if (!prices) return;
  if (parts.has("book") && store.book) drawBook(selected ?? store.book, prices);
  if (parts.has("trades") || parts.has("book")) tape.draw(store, prices, selected);
  if (parts.has("traders")) traders.draw(store.traders);
  if (parts.has("traders") || parts.has("columns")) kinds.draw(store.traders?.accounts ?? {}, mid(store.symbol), prices);
  if (parts.has("candles") || parts.has("market")) candles.draw(store.candles, prices, selected);
  if (parts.has("columns")) {
    lookBack.draw();
    heat.draw(store.columns, prices, selected);
    charts.draw(store.columns, prices, selected);
  }
}

function drawBook(book, prices) {
  ladder.draw(book, prices);
  const [bid, ask] = [book.bids[0], book.asks[0]];
  const last = element("last");
  last.textContent = prices.price(book.last);
  last.className = `last ${store.trades.length ? sideOf(store.trades.at(-1)) : ""}`;
  facts(element("quote"), [
    ["bid", bid ? prices.price(bid[0]) : "–", "buy"],
    ["ask", ask ? prices.price(ask[0]) : "–", "sell"],
    book.indicative ? ["auction", prices.price(book.indicative[0] || null), "phase"] : ["spread", bid && ask ? prices.price(ask[0] - bid[0]) : "–"],
  ]);
}

function drawPages() {
  for (const [page, text] of [["researcher", "Researcher"], ["minds", "Minds"], ["league", "League"]]) {
    if (!store.sections.pages?.[page] || element("pages").querySelector(`[href=${page}]`)) continue;
    const link = make("a", "", text);
    link.setAttribute("href", page);
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

function drawState(selected = lookBack.column) {
  const exchange = store.sections.exchange;
  const chip = element("state");
  const halted = haltText(store.book);
  const phase = phaseText(store.book?.phase);
  const paused = exchange?.clock?.settable && !exchange.clock.running;
  const [name, text] = !connection.open ? ["offline", "dashboard offline"] : exchange?.refusal ? ["offline", "refused"] : !exchange || exchange.offline ? ["offline", "exchange offline"] : halted ? ["halted", joined(halted, phase)] : paused ? ["paused", joined("paused", phase)] : phase ? ["phase", phase] : ["live", exchange.clock?.kind ?? "live"];
  const viewState = frozen ? "frozen" : selected ? "looking back" : "";
  chip.className = `chip ${viewState ? "frozen" : name}`;
  chip.textContent = viewState || text;
  const notice = element("notice");
  const { failed } = store.sections;
  notice.hidden = !failed && (name !== "offline" || !exchange);
  notice.textContent = failed ? failed : connection.open && exchange?.refusal ? `The exchange at ${exchange.endpoint} refuses the dashboard: ${exchange.refusal}.` : connection.open ? `No reply from the exchange at ${exchange?.endpoint}. ${exchange?.clock ? "The page shows its last state and" : "The page"} continues when the exchange is ${exchange?.clock ? "back" : "running"}.` : "The dashboard does not reply. The page continues when it is back.";
  if (selected) element("clock").textContent = timeOfDay(selected.t);
  else if (exchange?.clock) element("clock").textContent = timeOfDay(Number(BigInt(exchange.clock.time_ns) % DAY_NS) / 1e9);
  element("speed").textContent = name === "offline" ? "" : speedText(exchange.clock);
  document.body.classList.toggle("stale", name === "offline");
}

let toastTimer = 0;
function showToast(text, failed) {
  let toast = document.querySelector(".toast");
  if (!toast) document.body.append((toast = make("p", "toast")));
  toast.setAttribute("role", "status");
  toast.textContent = text;
  toast.className = `toast ${failed ? "failed" : ""}`;
  clearTimeout(toastTimer);
  toastTimer = setTimeout(() => toast.remove(), failed ? 12_000 : 4000);
}

function freeze() {
  frozen = !frozen;
  element("freeze").setAttribute("aria-pressed", frozen);
  element("freeze").textContent = frozen ? "Unfreeze" : "Freeze";
  if (frozen) drawState();
  else schedule();
}

/** Selecting a symbol unfreezes the page: the operator's buttons would act on a symbol that is not shown. */
function selectSymbol(name) {
  if (frozen) freeze();
  store.clear(name);
  connection.send({ symbol: name });
}

function stepSymbol(step) {
  const names = [...element("symbol").options].map((option) => option.value);
  if (names.length > 1) selectSymbol(names[(names.indexOf(store.symbol) + step + names.length) % names.length]);
}

element("freeze").addEventListener("click", freeze);
element("theme").addEventListener("click", () => document.dispatchEvent(new Event("switch-theme")));
element("keys").addEventListener("click", () => element("help").showModal());
element("symbol").addEventListener("change", (event) => selectSymbol(event.target.value));
document.addEventListener("theme", () => {
  for (const part of ALL_PARTS) changed.add(part);
  schedule();
});
new ResizeObserver(() => {
  changed.add("columns");
  schedule();
}).observe(element("heat"));

const KEYS = {
  " ": freeze,
  "[": () => stepSymbol(-1),
  "]": () => stepSymbol(1),
  ArrowLeft: () => lookBack.step(-1),
  ArrowRight: () => lookBack.step(1),
  Escape: () => lookBack.leave(),
  h: () => operator.toggleClock(),
  t: () => document.dispatchEvent(new Event("switch-theme")),
  "?": () => element("help").showModal(),
};
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea, dialog")) return;
  if (event.key === " " && event.target.closest("button, a")) return; // space presses the focused control
  const action = KEYS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
});
