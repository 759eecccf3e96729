// Heat map of the book over time: a column for each moment, a row for each price, brighter for more lots; best prices and trades on top.
import { colour, compact, indicativePrice, timeOfDay } from "./format.js";

const COLUMN_PX = 3;
const AXIS_PX = 62;
const TIME_PX = 18;
const ROWS_MAX = 220;
const PALETTES = {
  dark: [[13, 18, 28], [18, 44, 78], [22, 94, 131], [46, 160, 144], [170, 206, 96], [255, 224, 120]],
  light: [[250, 251, 253], [214, 230, 244], [150, 196, 226], [74, 144, 196], [36, 92, 160], [20, 42, 96]],
};

function palette(stops) {
  return Array.from({ length: 256 }, (_, index) => {
    const at = (index / 255) * (stops.length - 1);
    const low = Math.min(Math.floor(at), stops.length - 2);
    return stops[low].map((value, channel) => Math.round(value + (stops[low + 1][channel] - value) * (at - low)));
  });
}

export class HeatMap {
  /** onPick(column) is called with a clicked column. */
  constructor(canvas, hint, onPick) {
    this.canvas = canvas;
    this.hint = hint;
    this.image = document.createElement("canvas");
    this.range = null;
    canvas.addEventListener("pointermove", (event) => this.point(event.offsetX, event.offsetY));
    canvas.addEventListener("click", (event) => {
      const column = this.shown?.[this.index(event.offsetX)];
      if (column) onPick(column);
    });
    canvas.addEventListener("pointerleave", () => {
      this.hint.textContent = "";
    });
  }

  /** selected: a column to mark and to keep in view, if any. */
  draw(columns, grid, selected) {
    const ratio = window.devicePixelRatio || 1;
    const { clientWidth: width, clientHeight: height } = this.canvas;
    if (!width || !height) return;
    this.canvas.width = Math.round(width * ratio);
    this.canvas.height = Math.round(height * ratio);
    const context = this.canvas.getContext("2d");
    context.scale(ratio, ratio);
    context.clearRect(0, 0, width, height);
    this.plot = { width: width - AXIS_PX, height: height - TIME_PX };
    this.shown = around(columns, columns.indexOf(selected), Math.floor(this.plot.width / COLUMN_PX));
    this.grid = grid;
    if (!this.shown.length) return;
    this.choosePrices();
    if (!this.range) return; // there were no quotes yet
    this.paint(context);
    this.lines(context);
    this.dots(context);
    this.axes(context);
    if (selected) this.mark(context, this.shown.indexOf(selected));
  }

  mark(context, index) {
    context.fillStyle = colour("amber");
    context.fillRect(this.x(index), 0, Math.max(1, COLUMN_PX / 2), this.plot.height);
  }

  index(x) {
    return Math.floor((x - this.x(0)) / COLUMN_PX);
  }

  /** Chooses the range of prices around the quotes; it changes only when they come near its edge, so that the picture is steady. */
  choosePrices() {
    const quotes = this.shown.flatMap((column) => [column.bid, column.ask].filter((price) => price != null)).sort((a, b) => a - b);
    if (!quotes.length) return;
    const [low, high] = [quotes[Math.floor(quotes.length * 0.01)], quotes[Math.ceil(quotes.length * 0.99) - 1]];
    const margin = Math.max(12, Math.ceil((high - low) * 0.35));
    const near = margin * 0.4;
    if (this.range && low - this.range.low > near && this.range.high - high > near && this.range.high - this.range.low < 4 * (high - low + margin)) return;
    const [from, to] = [Math.max(1, low - margin), high + margin];
    this.range = { low: from, high: to, step: Math.max(1, Math.ceil((to - from + 1) / ROWS_MAX)) };
  }

  row(price) {
    return Math.floor((this.range.high - price) / this.range.step);
  }

  x(index) {
    return this.plot.width - (this.shown.length - index) * COLUMN_PX;
  }

  y(price) {
    return ((this.range.high - price + 0.5) / (this.range.high - this.range.low + 1)) * this.plot.height;
  }

  paint(context) {
    const theme = document.documentElement.dataset.theme;
    if (this.theme !== theme) {
      this.theme = theme;
      this.colours = palette(PALETTES[theme]);
    }
    const rows = this.row(this.range.low) + 1;
    const columns = this.shown.length;
    const lots = new Float64Array(rows * columns);
    this.shown.forEach((column, index) => {
      for (const side of [column.bids, column.asks]) {
        for (const [price, qty] of side) {
          const row = this.row(price);
          if (row >= 0 && row < rows) lots[row * columns + index] += qty;
        }
      }
    });
    const full = percentile(lots, 0.99) || 1;
    const image = new ImageData(columns, rows);
    for (let at = 0; at < lots.length; at++) {
      const shade = lots[at] ? Math.min(255, 14 + Math.round(241 * (lots[at] / full) ** 0.75)) : 0;
      const [red, green, blue] = this.colours[shade];
      image.data.set([red, green, blue, 255], at * 4);
    }
    this.lots = { values: lots, rows, columns };
    this.image.width = columns;
    this.image.height = rows;
    this.image.getContext("2d").putImageData(image, 0, 0);
    context.fillStyle = `rgb(${this.colours[0].join()})`;
    context.fillRect(0, 0, this.plot.width, this.plot.height);
    context.imageSmoothingEnabled = false;
    const height = (rows * this.range.step * this.plot.height) / (this.range.high - this.range.low + 1);
    context.drawImage(this.image, this.x(0), 0, columns * COLUMN_PX, height);
  }

  lines(context) {
    for (const [name, priceOf] of [["buy", (column) => column.bid], ["sell", (column) => column.ask], ["violet", indicativePrice]]) {
      context.strokeStyle = colour(name);
      context.lineWidth = 1.25;
      context.beginPath();
      let drawing = false;
      this.shown.forEach((column, index) => {
        const price = priceOf(column);
        if (price == null) {
          drawing = false;
          return;
        }
        const [x, y] = [this.x(index), this.y(price)];
        if (drawing) context.lineTo(x, y);
        else context.moveTo(x, y);
        context.lineTo(x + COLUMN_PX, y);
        drawing = true;
      });
      context.stroke();
    }
  }

  /** Trades: a circle at each price of a column. Area: lots; colour: the side with more aggressor volume, or an auction. */
  dots(context) {
    const maxLots = Math.max(1, ...this.shown.flatMap((column) => column.traded.map(([, ...lots]) => lots.reduce((sum, value) => sum + value))));
    context.strokeStyle = colour("panel");
    context.lineWidth = 0.75;
    const [buy, sell, auction] = [colour("buy-dot"), colour("sell-dot"), colour("violet")];
    this.shown.forEach((column, index) => {
      for (const [price, bought, sold, crossed] of column.traded) {
        context.beginPath();
        context.arc(this.x(index) + COLUMN_PX / 2, this.y(price), 1 + 6 * Math.sqrt((bought + sold + crossed) / maxLots), 0, 2 * Math.PI);
        context.fillStyle = crossed > bought + sold ? auction : bought >= sold ? buy : sell;
        context.fill();
        context.stroke();
      }
    });
  }

  axes(context) {
    const { width, height } = this.plot;
    context.font = "11px " + colour("mono");
    context.fillStyle = colour("muted");
    context.textBaseline = "middle";
    const ticks = this.range.high - this.range.low;
    const step = roundStep(ticks / Math.max(2, height / 48));
    const last = this.shown.at(-1);
    const quotes = [last.ask, last.bid].filter((price) => price != null).map((price) => this.y(price));
    const covered = (y) => quotes.some((quote) => Math.abs(quote - y) < 20);
    for (let price = Math.ceil(this.range.low / step) * step; price <= this.range.high; price += step) {
      const y = this.y(price);
      if (y > 8 && y < height - 4 && !covered(y)) context.fillText(this.grid.price(price), width + 6, y);
    }
    for (const [name, price] of [["sell", last.ask], ["buy", last.bid]]) {
      if (price == null) continue;
      const y = this.y(price) + (name === "sell" ? -7 : 7);
      context.fillStyle = colour(name);
      context.fillRect(width + 2, y - 7, AXIS_PX - 4, 14);
      context.fillStyle = colour("panel");
      context.fillText(this.grid.price(price), width + 6, y + 0.5);
    }
    context.fillStyle = colour("muted");
    context.textBaseline = "alphabetic";
    const every = Math.max(1, Math.ceil(110 / COLUMN_PX));
    for (let index = this.shown.length - 1; index >= 0; index -= every) {
      const x = this.x(index);
      if (x > 4 && x + 56 < width) context.fillText(timeOfDay(this.shown[index].t), x, height + 14);
    }
  }

  point(x, y) {
    if (!this.lots || x > this.plot.width || y > this.plot.height) return;
    const index = this.index(x);
    const price = Math.round(this.range.high + 0.5 - (y / this.plot.height) * (this.range.high - this.range.low + 1));
    const lots = this.lots.values[this.row(price) * this.lots.columns + index];
    this.hint.textContent = index < 0 || lots === undefined ? "" : `${timeOfDay(this.shown[index].t, 1)} · ${this.grid.price(price)} · ${compact(lots)} lots`;
  }
}

/** `count` columns: the newest, or those around the one at `index`. */
function around(columns, index, count) {
  const newest = Math.max(0, columns.length - count);
  const first = index < 0 || index >= newest ? newest : Math.max(0, index - Math.floor(count / 2));
  return columns.slice(first, first + count);
}

function percentile(values, share) {
  const positive = values.filter((value) => value > 0).sort();
  return positive.length ? positive[Math.floor((positive.length - 1) * share)] : 0;
}

function roundStep(rough) {
  const power = 10 ** Math.floor(Math.log10(Math.max(rough, 1)));
  return Math.max(1, [1, 2, 5, 10].map((factor) => factor * power).find((step) => step >= rough));
}
