// Looking back: the book as it was at an earlier moment that the page still keeps. The exchange and its clock go on.
import { timeOfDay } from "./format.js";

export class Past {
  constructor(slider, text, now, store, onLook) {
    Object.assign(this, { slider, text, now, store, onLook });
    this.number = null;
    slider.addEventListener("input", () => this.look(Number(slider.value)));
    now.addEventListener("click", () => this.leave());
  }

  /** Columns have numbers, which stay when older ones are no longer kept. */
  get oldest() {
    return this.store.columnsSeen - this.store.columns.length;
  }

  get newest() {
    return this.store.columnsSeen - 1;
  }

  /** The column that is looked at, the oldest where that one is gone; null for now. */
  get column() {
    if (this.number > this.newest) this.number = null; // what it was of has begun anew
    return this.number === null ? null : this.store.columns[Math.max(0, this.number - this.oldest)];
  }

  look(number) {
    this.number = number >= this.newest ? null : Math.max(this.oldest, number);
    this.onLook();
  }

  step(columns) {
    this.look((this.number ?? this.newest) + columns);
  }

  leave() {
    this.look(Infinity);
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
