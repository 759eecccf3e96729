// Formats numbers, prices and times.

const DAY_S = 86_400;
export const count = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const compactNumber = new Intl.NumberFormat("en", { notation: "compact", maximumFractionDigits: 1 });

export const compact = (value) => (Math.abs(value) < 10_000 ? count.format(value) : compactNumber.format(value));

/** Formats prices of a symbol, given in ticks. */
export class PriceFormat {
  constructor(tickSize, lotSize) {
    this.tick = Number(tickSize);
    this.lot = Number(lotSize);
    this.decimals = decimalsOf(tickSize);
  }

  price(ticks) {
    return ticks == null ? "–" : (ticks * this.tick).toFixed(this.decimals);
  }

  average(ticks) {
    return ticks == null ? "–" : (ticks * this.tick).toFixed(this.decimals + 2);
  }

  money(ticksLots) {
    return ticksLots == null ? "–" : new Intl.NumberFormat("en", { maximumFractionDigits: 2, minimumFractionDigits: 2, signDisplay: "exceptZero" }).format(ticksLots * this.tick * this.lot);
  }
}

/** The decimals of a number given as text, like 0.01 or 1e-8. */
function decimalsOf(text) {
  const [digits, exponent = "0"] = text.toLowerCase().split("e");
  return Math.max(0, (digits.split(".")[1] ?? "").length - Number(exponent));
}

/** The indicative auction price at the end of a column; null if there was none. */
export const indicativePrice = (column) => column.indicative?.[0] || null;

/** The text of a phase; empty in continuous trading. */
export const phaseText = (phase) => (!phase || phase === "continuous" ? "" : phase.replace("_", "-"));

/** The text of a halt, with its reason; empty without a halt. */
export const haltText = (book) => (book?.halted !== true ? "" : book.reason ? `halted: ${book.reason}` : "halted");

/** Joins the texts that are not empty. */
export const joined = (...texts) => texts.filter(Boolean).join(" · ");

export function timeOfDay(seconds, decimals = 0) {
  if (seconds == null || !Number.isFinite(seconds)) return "--:--:--";
  const whole = ((Math.floor(seconds) % DAY_S) + DAY_S) % DAY_S; // an axis may begin before midnight
  const twoDigits = (value) => String(value).padStart(2, "0");
  const text = `${twoDigits(Math.floor(whole / 3600))}:${twoDigits(Math.floor(whole / 60) % 60)}:${twoDigits(whole % 60)}`;
  return decimals ? text + (seconds - Math.floor(seconds)).toFixed(decimals).slice(1) : text;
}

/** The speed of a clock: the one that is set; of a lockstep clock the measured one; "" while it stands still. */
export function speedText(clock) {
  const speed = clock?.kind === "lockstep" ? clock.measured : clock?.running && clock.speed;
  return !speed ? "" : `× ${speed < 10_000 ? Number(speed.toPrecision(3)) : compactNumber.format(speed)}`;
}


/** Creates an element with text, which is never parsed as markup. */
export function make(tag, className = "", text = "") {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== "") element.textContent = text;
  return element;
}

/** Fills a <dl> with [name, value, class] rows. */
export function facts(list, rows) {
  while (list.children.length > rows.length) list.lastChild.remove();
  rows.forEach(([name, value, className = ""], index) => {
    const row = list.children[index] ?? list.appendChild(make("div"));
    if (!row.firstChild) row.append(make("dt"), make("dd"));
    const [term, detail] = row.children;
    if (term.textContent !== name) term.textContent = name;
    if (detail.textContent !== value) detail.textContent = value;
    if (detail.className !== className) detail.className = className;
  });
}

export const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
