// The researcher's page: asks for what the run has found, and draws it when it is new.
import { Chart } from "../../static/charts.js";
import { colour, facts, make } from "../../static/format.js";
import { differences } from "./diff.js";
import { Tree } from "./tree.js";

const POLL_MS = 2000;
const element = (id) => document.getElementById(id);
const bps = (value, decimals = 2) => (value == null ? "–" : `${value >= 0 ? "+" : "−"}${Math.abs(value).toFixed(decimals)}`);
const steps = { values: (_, splits) => splits.map((value) => (Number.isInteger(value) ? String(value) : "")), value: (value) => `iteration ${value}`, space: 40 };
const plain = { values: (_, splits) => splits.map((value) => String(Number(value.toPrecision(3)))) };
const figure = (_, value) => (value == null ? "" : value.toPrecision(4));
const dots = { show: true, size: 7 };
const ends = { show: true, size: 4, stroke: colour("accent") };
const scales = { x: { time: false, range: ({ data: [[first = 1, ...more]] }) => [first - 0.5, Math.max(first + 1, ...more) + 0.5] } };

const tree = new Tree(element("tree"), showCandidate);
const pa = new Chart(element("pa"), {
  series: [
    { label: "high", stroke: "accent-soft", width: 1, points: ends, value: figure },
    { label: "low", stroke: "accent-soft", width: 1, points: ends, value: figure },
    { label: "best of the iteration", stroke: "accent", points: dots, value: figure },
    { label: "running mean", stroke: "violet", value: figure },
    { label: "best so far", stroke: "amber", width: 1, value: figure },
    { label: "TWAP, same orders", stroke: "text", dash: [5, 4], points: dots, value: figure },
  ],
  bands: [{ series: [1, 2], fill: () => colour("accent-soft") }],
  axes: { y: plain }, x: steps, scales,
});
const logp = new Chart(element("logp"), {
  series: [{ label: "log p of the modules", stroke: "accent", points: dots, value: figure }, { label: "entropy", stroke: "amber", points: dots, scale: "entropy", value: figure }],
  axes: { y: plain, entropy: plain }, x: steps, scales,
});
const kl = new Chart(element("kl"), {
  series: [{ label: "loss", stroke: "violet", points: dots, value: figure }, { label: "KL from the base model", stroke: "amber", points: dots, scale: "kl", value: figure }],
  axes: { y: plain, kl: plain }, x: steps, scales,
});
let tag = "";
let shown = "";

async function poll() {
  try {
    const reply = await fetch("researcher/overview", { headers: tag ? { "if-none-match": tag } : {} });
    if (reply.status !== 304) {
      const found = await reply.json();
      if (found.problem) throw new Error(found.problem);
      tag = reply.headers.get("etag");
      draw(found);
    }
    element("notice").hidden = true;
  } catch (error) {
    element("notice").textContent = error instanceof TypeError ? "The dashboard does not reply. The page continues when it is back." : error.message;
    element("notice").hidden = false;
    tag = "";
  }
  setTimeout(poll, POLL_MS);
}

function draw(run) {
  element("name").textContent = run.name;
  document.title = `${run.name} · serl`;
  const scored = run.candidates.filter((one) => one.stage === "done");
  const rank = (one) => one.difference_low_bps ?? one.pa_bps;
  const best = scored.reduce((so, one) => (so && rank(so) >= rank(one) ? so : one), null);
  facts(element("facts"), [
    ["iterations", `${run.iterations.length}/${run.iterations_planned ?? "?"}`],
    ["candidates", `${scored.length}/${run.candidates.length} scored`],
    ...(best?.difference_bps == null ? [] : [["against the incumbent", difference(best)]]),
    ["best PA", best ? `${bps(best.pa_bps)} bps` : "–", best?.pa_bps > 0 ? "buy" : best ? "sell" : ""],
    ...(best?.twap_bps == null ? [] : [["TWAP", `${bps(best.twap_bps)} bps`]]),
    ["proposer", run.proposer ?? "–"],
  ]);
  element("state").className = `chip ${run.stopped ? "held" : "live"}`;
  element("state").textContent = run.stopped ? "ended" : "not ended";
  element("state").title = run.stopped ?? "";
  tree.draw(run.candidates);
  if (!run.candidates.length) element("tree").replaceChildren(make("p", "note", run.stopped ? "The run has no candidates." : "No candidates yet: the first ones are being written."));
  const column = (name, rows = run.iterations) => rows.map((row) => row[name] ?? null);
  pa.set([column("iteration"), column("high_bps"), column("low_bps"), column("pa_bps"), column("ema_bps"), column("best_so_far_bps"), column("twap_bps")]);
  drawTuning(run.iterations);
  element("prompts").replaceChildren(...prompts(run.instructions));
  element("rejected").replaceChildren(...rejected(run.verdicts));
  const first = best ?? run.candidates.at(-1);
  if (!tree.picked && first) tree.pick(`${first.iteration}/${first.slot}`);
  else if (tree.picked) showCandidate(tree.places.get(tree.picked));
}

function drawTuning(iterations) {
  const tuned = iterations.filter((row) => row.tuning.log_p != null);
  document.querySelector(".research").classList.toggle("untuned", !tuned.length);
  document.querySelector(".tuning").hidden = !tuned.length;
  const column = (name) => tuned.map((row) => row.tuning[name] ?? null);
  const at = tuned.map((row) => row.iteration);
  logp.set([at, column("log_p"), column("entropy")]);
  kl.set([at, column("loss"), column("kl")]);
}

function prompts(instructions) {
  if (!instructions.length) return [make("p", "note", "This run has no prompts.")];
  return instructions.map((one) => {
    const row = make("details", "prompt");
    const head = make("summary");
    head.append(make("span", "tag", one.kind), make("span", `score ${!one.uses ? "note" : one.score_bps > 0 ? "buy" : "sell"}`, one.uses ? bps(one.score_bps, 1) : "unused"), make("span", "words", one.text));
    const parents = one.parents.length ? ` of ${one.parents.map((parent) => `#${parent}`).join(", ")}` : "";
    row.append(head, make("p", "", one.text), make("p", "note", `#${one.id}, ${one.origin}${parents}, from iteration ${one.iteration}, used ${one.uses} times`));
    return row;
  });
}

function rejected(verdicts) {
  if (!verdicts.length) return [make("p", "note", "Nothing was rejected.")];
  const most = Math.max(...verdicts.map((one) => one.count));
  return verdicts.map((one) => {
    const row = make("details", "prompt reason");
    row.style.setProperty("--share", one.count / most);
    const head = make("summary");
    head.append(make("span", "tag", one.stage), make("span", "score", String(one.count)), make("span", "words", one.reason));
    row.append(head, make("pre", "", one.example || "no details"), make("p", "note", `${one.model}, last in iteration ${one.last_iteration}`));
    return row;
  });
}

function difference(one) {
  return `${bps(one.difference_bps)} [${bps(one.difference_low_bps)}, ${bps(one.difference_high_bps)}]`;
}

/** What the dashboard replies; null if it does not, or knows nothing of it. */
async function json(path) {
  try {
    const reply = await fetch(path);
    return reply.ok ? await reply.json() : null;
  } catch {
    return null;
  }
}

async function showCandidate(one) {
  const path = `researcher/candidate/${one.iteration}/${one.slot}`;
  const version = `${path} ${one.stage} ${one.pa_bps} ${one.difference_bps}`;
  if (version === shown) return;
  shown = version;
  const found = await json(path);
  if (shown !== version) return;
  if (!found) {
    shown = ""; // asked for again at the next click, or when the run has something new
    return;
  }
  element("detail-title").textContent = `Candidate ${found.iteration}/${found.slot}`;
  const list = make("dl", "facts grid");
  const score = found.score;
  facts(list, [
    ["stage", found.stage ?? "waiting"],
    ["PA, bps", `${bps(found.pa_bps)}${found.low_bps == null ? "" : ` [${bps(found.low_bps)}, ${bps(found.high_bps)}]`}`, found.pa_bps > 0 ? "buy" : found.pa_bps < 0 ? "sell" : ""],
    ...(score.twap_bps == null ? [] : [["TWAP, bps", bps(score.twap_bps)]]),
    ...(found.difference_bps == null ? [] : [["against the incumbent, bps", difference(found)], ["trainings", String(found.seeds)]]),
    ["parents", found.parents.map((parent) => parent.join("/")).join(", ") || "none"],
    ...(score.orders ? [["orders", String(score.orders)], ["left to the end", `${(100 * score.unfilled).toFixed(1)} %`], ["impact, bps", bps(score.impact_bps)]] : []),
  ]);
  const notes = [found.reason, ...found.verdicts.map((verdict) => `${[verdict.kind, verdict.stage, verdict.reason].filter(Boolean).join(", ")}: ${verdict.text}`)].filter(Boolean);
  element("detail").replaceChildren(list, ...[...new Set(notes)].map((text) => make("p", "note", text)), ...found.modules.map(module), ...(found.modules.length ? [] : [make("p", "note", "No module: the defaults of training.")]));
}

function module({ kind, form, text, parent, parent_text: before }) {
  const same = before === text;
  const box = make("section", "module");
  const head = make("h3");
  const note = parent ? (same ? `as in ${parent.join("/")}` : `differences to ${parent.join("/")}`) : "new";
  head.append(make("span", "tag", kind), make("span", "hint", `${form}, ${note}`));
  const code = make("pre");
  code.tabIndex = 0;
  code.setAttribute("aria-label", `${kind}, ${note}`);
  const lines = before == null || same ? pretty(text).split("\n").map((line) => [" ", line]) : differences(pretty(before), pretty(text));
  code.append(...lines.map(([mark, line]) => make("span", { "+": "plus", "-": "minus", " ": "" }[mark], `${before == null || same ? "" : `${mark} `}${line}\n`)));
  box.append(head, code);
  return box;
}

/** Specifications are JSON in one line: indented, they can be read and compared. */
function pretty(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

element("theme").addEventListener("click", () => document.dispatchEvent(new Event("switch-theme")));
document.addEventListener("keydown", (event) => {
  if (event.key === "t" && !event.target.closest("input, textarea, select") && !event.ctrlKey && !event.metaKey && !event.altKey) document.dispatchEvent(new Event("switch-theme"));
});
poll();
