// The state of the page: the latest of everything, and the recent columns and trades.

const COLUMNS = 960;
const TRADES = 4000;
const CANDLES = 300;

export class Store {
  constructor() {
    this.sections = {};
    this.clears = 0;
    this.clear("");
  }

  clear(symbol) {
    this.clears++;
    this.symbol = symbol;
    this.book = null;
    this.columns = [];
    this.candles = {};
    this.traders = null;
    this.trades = [];
    this.tradesSeen = 0;
    this.columnsSeen = 0;
  }

  /** Applies a frame of the server; returns the names of the parts that changed. */
  apply(frame) {
    const changed = new Set();
    if (frame.symbol !== undefined && (frame.symbol !== this.symbol || frame.fresh)) {
      this.clear(frame.symbol);
      for (const part of ["book", "trades", "columns", "candles", "traders"]) changed.add(part);
    }
    if (frame.book) {
      this.book = frame.book;
      changed.add("book");
    }
    if (frame.trades) {
      this.trades = [...this.trades, ...frame.trades].slice(-TRADES);
      this.tradesSeen += frame.trades.length;
      changed.add("trades");
    }
    if (frame.columns) {
      this.columns = [...this.columns, ...frame.columns].slice(-COLUMNS);
      this.columnsSeen += frame.columns.length;
      changed.add("columns");
    }
    for (const [period, candles] of Object.entries(frame.candles ?? {})) {
      const [[first]] = candles; // the newest that was stored may have changed
      this.candles[period] = [...(this.candles[period] ?? []).filter(([number]) => number < first), ...candles].slice(-CANDLES);
      changed.add("candles");
    }
    if (frame.traders) {
      this.traders = frame.traders;
      changed.add("traders");
    }
    for (const name of ["exchange", "market", "account", "account_trades", "executions", "watch", "standings", "news", "pages", "failed"]) {
      if (name in frame) {
        this.sections[name] = frame[name];
        changed.add(name);
      }
    }
    return changed;
  }
}
