"""Parts of the page that need no browser, in node: prices, the list of trades, looking back."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from serl.clients.dashboard.server import STATIC

SETUP = """
class Element {
  constructor() { this.children = []; this.dataset = {}; }
  append(...more) { this.children.push(...more); }
  prepend(...more) { this.children.unshift(...more); }
  replaceChildren(...all) { this.children = all; }
  get lastChild() { return { remove: () => this.children.pop() }; }
  addEventListener() {}
}
globalThis.document = { createElement: () => new Element() };
const trades = (first, end) => Array.from({ length: end - first }, (_, place) => [first + place, 0, 1, 1, 0, 0]);
const columns = (first, end) => Array.from({ length: end - first }, (_, place) => ({ t: first + place }));
const { PriceFormat } = await import("./format.js");
const { Store } = await import("./store.js");
const { Tape } = await import("./tape.js");
const { LookBack } = await import("./look_back.js");
const store = new Store();
"""


@pytest.fixture
def node(tmp_path: Path) -> Any:
    """Runs a script beside the page's modules; returns what its `found` is."""
    path = shutil.which("node") or pytest.skip("node is not installed")
    for module in STATIC.iterdir():
        if module.name.endswith(".js"):
            (tmp_path / module.name).write_text(module.read_text())
    (tmp_path / "package.json").write_text('{"type": "module"}')

    def run(script: str) -> Any:
        (tmp_path / "script.js").write_text(f"{SETUP}{script}\nconsole.log(JSON.stringify(found));")
        done = subprocess.run([path, "script.js"], cwd=tmp_path, capture_output=True, text=True, timeout=60)
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def test_prices_have_the_decimals_of_their_tick(node: Any) -> None:
    ticks = ["0.01", "0.0001", "1e-8", "1E-7", "2.5e-3", "5", "1e2"]
    found = node(f"const found = {json.dumps(ticks)}.map((tick) => new PriceFormat(tick, '1').price(12345));")
    assert found == ["123.45", "1.2345", "0.00012345", "0.0012345", "30.8625", "61725", "1234500"]


def test_the_list_of_trades_begins_again_with_a_new_connection(node: Any) -> None:
    """The page may have missed more trades than it is then sent."""
    found = node("""
    const list = new Element();
    const tape = new Tape(list);
    for (const sent of [trades(1, 201), trades(101, 301)]) {
      store.apply({ symbol: "A", fresh: true, trades: sent });
      tape.draw(store, { price: String });
    }
    store.apply({ symbol: "A", trades: trades(301, 303) });
    tape.draw(store, { price: String });
    const found = list.children.map((row) => row.dataset.match);
    """)
    assert found == list(range(302, 242, -1))


def test_looking_back_stays_at_its_time_when_the_symbol_changes(node: Any) -> None:
    """Columns are numbered from the first that the page was sent, which differs between symbols."""
    found = node("""
    const back = new LookBack(new Element(), {}, new Element(), store, () => {});
    const found = [];
    const see = (frame) => { store.apply(frame); found.push(back.column?.t ?? null); };
    see({ symbol: "A", fresh: true, columns: columns(0, 720) });
    see({ symbol: "A", columns: columns(720, 1200) });
    back.select(900);
    found.push(back.column.t);
    store.clear("B");
    found.push(back.column);
    see({ symbol: "B", fresh: true, columns: columns(240, 1200) });
    back.step(-1);
    see({ symbol: "B", columns: columns(1200, 1210) });
    see({ symbol: "B", fresh: true, columns: columns(5, 10) });
    """)
    assert found == [None, None, 900, None, 900, 899, None], "an exchange that was restarted is shown as it is now"
