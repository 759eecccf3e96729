// Looking back: shows the book at an earlier moment that the page still keeps. The exchange and its clock run on.
import { timeOfDay } from "./format.js";

export class LookBack {
  constructor(slider, text, now, store, onSelect) {
    Object.assign(this, { slider, text, now, store, onSelect });
    this.number = null;
    slider.addEventListener("input", () => this.select(Number(slider.value)));
    now.addEventListener("click", () => this.leave());
  }

  /** Columns keep their numbers when older ones are dropped. */
  get oldest() {
    return this.store.columnsSeen - this.store.columns.length;
  }

  get newest() {
    return this.store.columnsSeen - 1;
  }

  /** The selected column, or the oldest if that one was dropped; null at the present time. */
  get column() {
    const { columns, clears } = this.store;
    if (this.number === null || !columns.length) return null;
    if (this.clears !== clears) this.findAgain();
    return this.number === null ? null : columns[Math.max(0, this.number - this.oldest)];
  }

  /** Columns of another symbol, or of a new connection, have other numbers: finds the moment by its time. Another exchange may not have it. */
  findAgain() {
    const at = this.store.columns.findLastIndex((column) => column.t <= this.time);
    this.number = at < 0 || at === this.store.columns.length - 1 ? null : this.oldest + at;
    this.clears = this.store.clears;
  }

  select(number) {
    this.number = number >= this.newest ? null : Math.max(this.oldest, number);
    this.time = this.store.columns[this.number - this.oldest]?.t;
    this.clears = this.store.clears;
    this.draw(); // at once: on a busy machine the next frame is late, and who steps by key reads the slider
    this.onSelect();
  }

  step(columns) {
    this.select((this.column ? this.number : this.newest) + columns);
  }

  leave() {
    this.select(Infinity);
  }

  draw() {
    const { column } = this;
    this.slider.min = Math.max(0, this.oldest);
    this.slider.max = Math.max(0, this.newest);
    this.slider.value = column ? Math.max(this.oldest, this.number) : this.slider.max;
    this.slider.disabled = this.store.columns.length < 2;
    this.text.textContent = this.slider.ariaValueText = column ? timeOfDay(column.t, 1) : "now";
    this.now.disabled = !column;
  }
}
