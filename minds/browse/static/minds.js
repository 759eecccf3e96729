// The page of LLM traders: asks for what the minds have decided, and draws it when it is new.
import { Chart, steps } from "../../static/charts.js";
import { count, facts, make, timeOfDay } from "../../static/format.js";

const POLL_MS = 2000;
const DAY_S = 86_400;
const COLOURS = ["accent", "amber", "violet", "buy", "sell", "text"];
const element = (id) => document.getElementById(id);
const percent = (value) => (value == null ? "–" : `${value > 0 ? "+" : value < 0 ? "−" : ""}${Math.abs(100 * value).toFixed(2)} %`);
/** With as many decimals as the distance of two splits needs. */
const percents = (_, splits) => {
  const decimals = Math.max(0, Math.ceil(-Math.log10(100 * (splits[1] - splits[0]) || 1) - 1e-9));
  return splits.map((value) => `${(100 * value).toFixed(decimals)} %`);
};
const money = (value) => (value == null ? "–" : new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 }).format(value));
const side = (value) => (value > 0 ? "buy" : value < 0 ? "sell" : "");

let tag = "";
let picked = "";
let times = []; // of decisions: the axis has their numbers, so that nights take no room
let chart = null;
let names = "";

async function poll() {
  try {
    const reply = await fetch("minds/overview", { headers: tag ? { "if-none-match": tag } : {} });
    if (reply.status !== 304) {
      const run = await reply.json();
      tag = reply.headers.get("etag") ?? "";
      notice(run.problem);
      if (run.name !== undefined) await draw(run);
    }
  } catch (error) {
    notice(error instanceof TypeError ? "The dashboard does not reply. The page continues when it is back." : error.message);
    tag = "";
  }
  setTimeout(poll, POLL_MS);
}

function notice(text) {
  element("notice").textContent = text ?? "";
  element("notice").hidden = !text;
}

async function draw(run) {
  element("name").textContent = run.name;
  document.title = `${run.name} · serl`;
  const refused = run.personas.reduce((sum, one) => sum + one.refused, 0);
  facts(element("facts"), [
    ["minds", count.format(run.minds.length)],
    ["decisions", count.format(run.decisions)],
    ["refused", count.format(refused)],
    ["model", run.model],
    ...(Object.keys(run.renamed).length ? [["in their words", Object.entries(run.renamed).map(([shown, name]) => `${name} is ${shown}`).join(", ")]] : []),
  ]);
  element("state").className = `chip ${run.ended ? "held" : "live"}`;
  element("state").textContent = run.ended ? "ended" : "not ended";
  drawWealth(run.curves);
  element("minds").replaceChildren(...groups(run));
  element("latest").replaceChildren(...run.latest.map((one) => decision(one, true)));
  if (run.minds.length && !run.minds.some((one) => one.mind === picked)) picked = run.minds[0].mind; // at first, or another run replaced that one
  if (picked) await showMind();
}

function drawWealth(curves) {
  const personas = Object.keys(curves);
  if (!personas.length) return;
  if (personas.join() !== names) {
    names = personas.join();
    const series = personas.map((label, index) => ({ label, stroke: COLOURS[index % COLOURS.length], paths: steps, spanGaps: true, value: (_, value) => percent(value) }));
    if (chart) chart.setSeries(series);
    else chart = new Chart(element("wealth"), { series, axes: { y: { values: percents, size: 60 } }, x: { values: (_, splits) => splits.map(clock), value: clock, space: 110 }, scales: { x: { time: false, range: ({ data: [[low = 0, ...more]] }) => [low, Math.max(low + 1, ...more)] } } });
  }
  times = [...new Set(personas.flatMap((name) => curves[name].map(([time]) => time)))].sort((a, b) => a - b);
  const columns = personas.map((name) => {
    const known = new Map(curves[name]);
    return times.map((time) => known.get(time) ?? null);
  });
  chart.set([times.map((_, number) => number), ...columns]);
}

/** The text of the time with a number; "" between two. */
function clock(number) {
  const seconds = times[number];
  if (seconds === undefined) return "";
  const day = Math.floor(seconds / DAY_S) - Math.floor(times[0] / DAY_S);
  return day ? `day ${day + 1}, ${timeOfDay(seconds)}` : timeOfDay(seconds);
}

function groups(run) {
  return run.personas.flatMap((persona) => {
    const head = make("div", "persona");
    head.append(make("span", "", `${persona.persona}, ${count.format(persona.minds)}`), make("span", side(persona.return), percent(persona.return)));
    return [head, ...run.minds.filter((one) => one.persona === persona.persona).map(row)];
  });
}

function row(one) {
  const button = make("button", "mind");
  button.type = "button";
  button.dataset.mind = one.mind;
  button.setAttribute("aria-pressed", one.mind === picked);
  button.append(make("span", "", one.mind), make("span", "number", money(one.wealth)), make("span", `number ${side(one.return)}`, percent(one.return)));
  return button;
}

function decision(one, withName) {
  const box = make("div", "decision");
  const head = make("div", "head");
  head.append(make("time", "", one.time));
  if (withName) head.append(make("span", "who", one.mind));
  const action = one.kind === "lesson" ? "learns" : one.kind === "end" ? "ends" : one.action;
  head.append(make("span", `act ${one.side === "buy" ? "buy" : one.side === "sell" ? "sell" : ""}`, action));
  if (one.refused) head.append(make("span", "refused", `refused: ${one.refused}`));
  box.append(head);
  if (one.why) box.append(make("p", "why", one.why));
  if (one.post) box.append(make("p", "post", one.post));
  return box;
}

async function showMind() {
  const wanted = picked;
  const reply = await fetch(`minds/mind?name=${encodeURIComponent(wanted)}`);
  if (!reply.ok || wanted !== picked) return;
  const mind = await reply.json();
  element("detail-title").textContent = mind.mind;
  const opened = new Set([...element("detail").querySelectorAll("details[open]")].map((one) => one.dataset.place));
  element("detail").replaceChildren(...mind.rows.map((one, index) => {
    const box = decision(one, false);
    if (one.wealth != null) {
      const held = [`wealth ${money(one.wealth)}`, `cash ${money(one.cash)}`, ...Object.entries(one.lots).map(([symbol, lots]) => `${symbol} ${count.format(lots)}`)];
      box.append(make("p", "note", [...held, ...(one.loan ? [`loan ${money(one.loan)}`] : [])].join(", ")));
    }
    const place = `${mind.rows.length - index}-${one.time}`;
    for (const [name, texts] of [["saw", [...one.events, ...one.outcomes]], ["remembered", one.memories]]) {
      if (texts.length) box.append(list(`${name} ${texts.length}`, texts, `${place}-${name}`, opened));
    }
    return box;
  }));
  for (const button of document.querySelectorAll(".mind")) button.setAttribute("aria-pressed", button.dataset.mind === picked);
}

function list(title, texts, place, opened) {
  const box = make("details");
  box.dataset.place = place;
  box.open = opened.has(place);
  const items = make("ul");
  items.append(...texts.map((text) => make("li", "", text)));
  box.append(make("summary", "", title), items);
  return box;
}

element("minds").addEventListener("click", (event) => {
  const button = event.target.closest(".mind");
  if (!button) return;
  picked = button.dataset.mind;
  showMind();
});
element("theme").addEventListener("click", () => document.dispatchEvent(new Event("switch-theme")));
document.addEventListener("keydown", (event) => {
  if (event.key === "t" && !event.target.closest("input, textarea, select") && !event.ctrlKey && !event.metaKey && !event.altKey) document.dispatchEvent(new Event("switch-theme"));
});
poll();
