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
    if (this.number > this.newest) this.number = null; // the exchange restarted
    return this.number === null ? null : this.store.columns[Math.max(0, this.number - this.oldest)];
  }

  select(number) {
    this.number = number >= this.newest ? null : Math.max(this.oldest, number);
    this.draw(); // at once: on a busy machine the next frame is late, and who steps by key reads the slider
    this.onSelect();
  }

  step(columns) {
    this.select((this.number ?? this.newest) + columns);
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
