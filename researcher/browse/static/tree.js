// Candidates as a tree: a column for each iteration, a curve to each parent.
const SVG = "http://www.w3.org/2000/svg";
const COLUMN = 74;
const ROW = 40;
const RADIUS = 9;
const LEFT = 34;
const TOP = 36;
const worth = (one) => one.difference_bps ?? one.pa_bps; // against the incumbent; runs of earlier versions have PA only
const rank = (one) => one.difference_low_bps ?? one.pa_bps;

function draw(name, attributes) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}

const id = (iteration, slot) => `${iteration}/${slot}`;

export class Tree {
  constructor(element, onPick) {
    this.element = element;
    this.onPick = onPick;
    this.picked = null;
    element.addEventListener("keydown", (event) => this.move(event));
  }

  draw(candidates) {
    this.places = new Map(candidates.map((one) => [id(one.iteration, one.slot), one]));
    const iterations = Math.max(0, ...candidates.map((one) => one.iteration));
    const slots = 1 + Math.max(0, ...candidates.map((one) => one.slot));
    const svg = draw("svg", { width: LEFT * 2 + COLUMN * (iterations - 1) + RADIUS, height: TOP + slots * ROW, role: "group", "aria-label": "Candidates" });
    const scored = candidates.filter((one) => worth(one) != null).map(worth);
    this.most = Math.max(1e-9, ...scored.map(Math.abs));
    this.best = Math.max(...candidates.filter((one) => one.stage === "done").map(rank));
    this.decimals = this.most < 1 ? 2 : 1;
    for (let iteration = 1; iteration <= iterations; iteration++) {
      const text = draw("text", { x: this.x(iteration), y: 16, class: "step" });
      text.textContent = iteration;
      svg.append(text);
    }
    const family = this.family();
    for (const one of candidates) for (const parent of one.parents) svg.append(this.edge(one, parent, family));
    for (const one of candidates) svg.append(this.node(one));
    const focused = document.activeElement?.closest?.(".node")?.dataset.id;
    this.element.replaceChildren(svg);
    if (focused) this.element.querySelector(`[data-id="${focused}"]`)?.focus();
  }

  x(iteration) {
    return LEFT + (iteration - 1) * COLUMN;
  }

  y(slot) {
    return TOP + slot * ROW + 8;
  }

  /** The picked candidate and its ancestors. */
  family() {
    const found = new Set();
    const waiting = this.picked ? [this.picked] : [];
    while (waiting.length) {
      const next = waiting.pop();
      if (found.has(next) || !this.places.has(next)) continue;
      found.add(next);
      waiting.push(...this.places.get(next).parents.map((parent) => id(...parent)));
    }
    return found;
  }

  edge(one, [iteration, slot], family) {
    const [x1, y1, x2, y2] = [this.x(iteration) + RADIUS, this.y(slot), this.x(one.iteration) - RADIUS, this.y(one.slot)];
    const bend = Math.min(30, (x2 - x1) / 2);
    const near = family.has(id(one.iteration, one.slot)) && family.has(id(iteration, slot));
    return draw("path", { d: `M${x1},${y1} C${x1 + bend},${y1} ${x2 - bend},${y2} ${x2},${y2}`, class: `edge${near ? " near" : ""}` });
  }

  node(one) {
    const place = id(one.iteration, one.slot);
    const label = `iteration ${one.iteration}, slot ${one.slot}: ${worth(one) == null ? (one.stage ?? "waiting") : `${worth(one).toFixed(2)} bps${one.stage === "done" ? "" : `, ${one.stage}`}`}`;
    const chosen = place === this.picked;
    const group = draw("g", { class: `node ${one.stage ?? "waiting"}${chosen ? " picked" : ""}`, tabindex: chosen || (!this.picked && place === this.places.keys().next().value) ? 0 : -1, role: "button", "aria-label": label, "aria-pressed": chosen, "data-id": place });
    const title = draw("title", {});
    title.textContent = label;
    const circle = draw("circle", { cx: this.x(one.iteration), cy: this.y(one.slot), r: RADIUS });
    if (worth(one) != null) {
      const share = Math.round(30 + (70 * Math.abs(worth(one))) / this.most);
      circle.style.fill = `color-mix(in oklab, var(--${worth(one) >= 0 ? "buy" : "sell"}) ${share}%, var(--raised))`;
    }
    group.append(title, circle);
    if (one.stage === "rejected") {
      const [x, y] = [this.x(one.iteration), this.y(one.slot)];
      group.append(draw("path", { d: `M${x - 4},${y - 4}l8,8m0,-8l-8,8`, class: "cross" }));
    }
    if (one.stage === "done" && rank(one) === this.best) group.append(draw("circle", { cx: this.x(one.iteration), cy: this.y(one.slot), r: RADIUS + 4, class: "best" }));
    const text = draw("text", { x: this.x(one.iteration), y: this.y(one.slot) + RADIUS + 12, class: "value" });
    text.textContent = worth(one) == null ? (one.stage ?? "…") : worth(one).toFixed(this.decimals);
    group.append(text);
    group.addEventListener("click", () => this.pick(place));
    return group;
  }

  pick(place) {
    const one = this.places.get(place);
    if (!one) return;
    this.picked = place;
    this.draw([...this.places.values()]);
    const node = this.element.querySelector(`[data-id="${place}"]`);
    node.focus({ preventScroll: true });
    node.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.onPick(one);
  }

  move(event) {
    const at = event.target.closest(".node")?.dataset.id;
    if (!at) return;
    const [iteration, slot] = at.split("/").map(Number);
    const next = { ArrowLeft: [iteration - 1, slot], ArrowRight: [iteration + 1, slot], ArrowUp: [iteration, slot - 1], ArrowDown: [iteration, slot + 1], Enter: [iteration, slot], " ": [iteration, slot] }[event.key];
    if (!next) return;
    event.preventDefault();
    this.pick(id(...next));
  }
}
