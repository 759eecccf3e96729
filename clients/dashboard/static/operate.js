// The operator's controls: the clock of a replay, halts, an order. Without the operator token they are disabled.
import { make } from "./format.js";

const SPEEDS = [0.1, 0.25, 0.5, 1, 2, 5, 10, 30, 60, 120, 300, 1000];

function button(text, onClick, className = "") {
  const element = make("button", className, text);
  element.type = "button";
  element.addEventListener("click", onClick);
  return element;
}

function field(label, input) {
  const element = make("label", "field");
  element.append(make("span", "", label), input);
  return element;
}

function input(type, values) {
  return Object.assign(document.createElement("input"), { type, ...values });
}

export class Operator {
  constructor(replay, operate, connection, store, showToast) {
    Object.assign(this, { replay, operate, connection, store, showToast });
    this.pause = button("Pause", () => this.toggleClock(), "primary");
    this.speed = document.createElement("select");
    this.speed.addEventListener("change", () => this.act("speed", { speed: Number(this.speed.value) }));
    this.seek = input("text", { size: 9, placeholder: "15:30:00", ariaLabel: "Time of day to skip to" });
    this.skip = make("button", "", "Skip to");
    this.skip.title = "Exchange time moves forward only; to look back, use the slider below the depth over time";
    this.replayNote = make("p", "note");
    this.replayControls = make("div", "controls");
    const jump = make("form", "joined");
    jump.append(this.seek, this.skip);
    jump.addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.seek.value.trim()) this.act("clock", { to: this.seek.value.trim(), run: this.clock.running });
    });
    this.replayControls.append(this.pause, field("speed", this.speed), jump);
    replay.append(this.replayControls, this.replayNote);
    this.operateNote = make("p", "note", "To halt or enter orders, open the operator address that `serl dashboard` printed.");
    operate.append(connection.token ? this.orderForm() : this.operateNote);
  }

  get clock() {
    return this.store.sections.exchange?.clock ?? {};
  }

  async act(action, values) {
    try {
      this.showToast(await this.connection.act(action, values), false);
    } catch (error) {
      this.showToast(error.message, true);
    }
  }

  toggleClock() {
    if (this.clock.settable) this.act("clock", { run: !this.clock.running });
  }

  orderForm() {
    const form = make("form", "order");
    const side = document.createElement("select");
    side.append(new Option("Buy", "0"), new Option("Sell", "1"));
    this.side = side;
    this.lots = input("number", { min: 1, value: 100, required: true });
    this.price = input("text", { inputMode: "decimal", placeholder: "market" });
    const send = make("button", "primary", "Send");
    form.append(field("side", side), field("lots", this.lots), field("price", this.price), send);
    form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.sendOrder();
    });
    const halts = make("div", "controls");
    halts.append(
      button("Halt", () => this.act("halt", { symbol: this.store.symbol }), "danger"),
      button("Resume", () => this.act("resume", { symbol: this.store.symbol })),
    );
    const controls = make("div");
    controls.append(halts, form);
    return controls;
  }

  sendOrder() {
    const text = this.price.value.trim();
    const ticks = text ? Number(text) / this.grid.tick : null;
    if (ticks !== null && !(Math.abs(ticks - Math.round(ticks)) < 1e-6)) {
      this.showToast(`expected a multiple of the tick size ${this.grid.tick}, got ${text}`, true);
      return;
    }
    const values = { symbol: this.store.symbol, side: Number(this.side.value), qty_lots: Number(this.lots.value) };
    this.act("order", { ...values, price_ticks: ticks === null ? null : Math.round(ticks) });
  }

  pick(price, side) {
    if (!this.price) return;
    this.price.value = this.grid.price(price);
    this.side.value = side === "ask" ? "0" : "1";
  }

  draw(grid) {
    this.grid = grid;
    const { kind, speed, settable, running } = this.clock;
    this.replayControls.hidden = !settable;
    for (const control of [this.pause, this.speed, this.seek, this.skip]) control.disabled = !this.connection.token;
    if (settable) {
      this.pause.textContent = running ? "Pause" : "Run";
      if (document.activeElement !== this.speed && this.speed.dataset.speed !== String(speed)) {
        this.speed.dataset.speed = speed;
        const speeds = [...new Set([...SPEEDS, speed])].sort((a, b) => a - b);
        this.speed.replaceChildren(...speeds.map((value) => new Option(`${value} ×`, value, false, value === speed)));
      }
    }
    const notes = { live: "The clock is live: it cannot be paused.", lockstep: "The lockstep clock has no speed: it advances with the promises of the participants." };
    this.replayNote.textContent = settable ? (this.connection.token ? "" : "Only the operator can set the clock.") : (notes[kind] ?? "");
    this.replayNote.hidden = !this.replayNote.textContent;
  }
}
