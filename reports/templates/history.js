"use strict";
// Draws the series of a page, with zoom. The data: entries [commit, day or time, title], and plots whose
// points are [entry, value, low, high].
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const data = JSON.parse(document.getElementById("data").textContent);
  const HEIGHT = 260, LEFT = 84, RIGHT = 16, TOP = 12, BOTTOM = 30, LEAST = 2;

  const make = (name, parent, attributes, text) => {
    const node = document.createElementNS(SVG, name);
    for (const key of Object.keys(attributes)) node.setAttribute(key, attributes[key]);
    if (text !== undefined) node.textContent = text;
    parent.append(node);
    return node;
  };
  const scaled = (value, units, step) => {
    let index = 0;
    while (Math.abs(value) >= step - 0.5 && index < units.length - 1) { value /= step; index += 1; }
    return `${+value.toPrecision(4)} ${units[index]}`;
  };
  const WRITERS = {
    seconds: (v) => v === 0 ? "0 s" : scaled(v * 1e9, ["ns", "µs", "ms", "s"], 1000),
    bytes: (v) => scaled(v, ["B", "kB", "MB", "GB", "TB"], 1000),
    ratio: (v) => `${v.toFixed(4)} ×`,
    count: (v) => (+v.toPrecision(6)).toLocaleString("en"),
  };
  const ticks = (low, high, count) => {
    const rough = (high - low) / count || 1;
    const power = 10 ** Math.floor(Math.log10(rough));
    const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= rough);
    const found = [];
    for (let n = Math.ceil(low / step); n * step <= high + step * 1e-9; n += 1) found.push(n * step);
    return found;
  };

  class Plot {
    constructor(place) {
      const known = data.plots[Number(place.dataset.plot)];
      this.place = place;
      this.points = known.points;
      this.changes = known.changes;
      this.write = WRITERS[known.unit];
      this.whole = known.unit === "count";
      this.all = [-0.5, Math.max(this.points.length - 0.5, 0.5)];
      this.view = this.all;
      this.svg = make("svg", place, { tabindex: 0, role: "img", "aria-label": known.label });
      this.tip = document.createElement("div");
      this.tip.className = "tip";
      this.tip.hidden = true;
      place.append(this.tip);
      this.listen();
      new ResizeObserver(() => this.draw()).observe(place);
      this.draw();
    }
    x(index) { return LEFT + (index - this.view[0]) / (this.view[1] - this.view[0]) * this.room; }
    y(value) { return TOP + (this.high - value) / (this.high - this.low) * (HEIGHT - TOP - BOTTOM); }
    index(x) { return this.view[0] + (x - LEFT) / this.room * (this.view[1] - this.view[0]); }
    span() {
      const first = Math.max(0, Math.ceil(this.view[0])), last = Math.min(this.points.length - 1, Math.floor(this.view[1]));
      return [first, last];
    }
    draw() {
      this.width = Math.max(this.place.clientWidth, 240);
      this.room = this.width - LEFT - RIGHT;
      this.svg.replaceChildren();
      this.svg.setAttribute("viewBox", `0 0 ${this.width} ${HEIGHT}`);
      const [first, last] = this.span();
      const shown = this.points.slice(first, last + 1);
      // With the intervals, where they are drawn.
      const values = shown.flatMap((p) => p[3] !== undefined && shown.length < 200 ? p.slice(1, 4) : [p[1]]);
      let low = Math.min(...values), high = Math.max(...values);
      const pad = (high - low) * 0.08 || Math.abs(high) * 0.05 || 1;
      this.low = low - pad;
      this.high = high + pad;
      for (const value of ticks(this.low, this.high, 6)) {
        if (this.whole && Math.abs(value - Math.round(value)) > 1e-9) continue;
        make("line", this.svg, { class: "grid", x1: LEFT, x2: this.width - RIGHT, y1: this.y(value), y2: this.y(value) });
        make("text", this.svg, { x: LEFT - 8, y: this.y(value) + 4, "text-anchor": "end" }, this.write(value));
      }
      const columns = Math.max(2, Math.floor(this.room / 240));
      const names = new Set();
      if (last < first) return;
      for (let n = 0; n < columns; n += 1) names.add(Math.round(first + (last - first) * n / (columns - 1)));
      for (const index of names) {
        const entry = data.entries[this.points[index][0]];
        const anchor = index === first ? "start" : index === last ? "end" : "middle";
        make("text", this.svg, { x: this.x(index), y: HEIGHT - 10, "text-anchor": anchor }, `${entry[0]} ${entry[1]}`.trim());
      }
      this.levels();
      // As many as can be told apart: of more, the lowest and the highest of each column of pixels.
      for (const index of this.thin(first, last)) {
        const [, value, from, to] = this.points[index];
        const x = this.x(index);
        if (to !== undefined && shown.length < 200) make("line", this.svg, { class: "range", x1: x, x2: x, y1: this.y(from), y2: this.y(to) });
        make("circle", this.svg, { class: "point", cx: x, cy: this.y(value), r: shown.length > 400 ? 1.5 : 3 });
      }
      this.chosen = make("rect", this.svg, { class: "chosen", y: TOP, height: HEIGHT - TOP - BOTTOM, width: 0, x: 0 });
    }
    thin(first, last) {
      if (last - first < 2 * this.room) return Array.from({ length: last - first + 1 }, (_, n) => first + n);
      const kept = new Map();
      for (let index = first; index <= last; index += 1) {
        const column = Math.round(this.x(index));
        const pair = kept.get(column) || [index, index];
        if (this.points[index][1] < this.points[pair[0]][1]) pair[0] = index;
        if (this.points[index][1] > this.points[pair[1]][1]) pair[1] = index;
        kept.set(column, pair);
      }
      return [...new Set([...kept.values()].flat())];
    }
    levels() {
      let before = 0;
      const end = this.points.length;
      for (const change of [...this.changes, null]) {
        const until = change ? change.index : end;
        const level = change ? change.before : this.changes.length ? this.changes.at(-1).after : null;
        const x1 = Math.max(this.x(before - 0.5), LEFT), x2 = Math.min(this.x(until - 0.5), this.width - RIGHT);
        if (level !== null && x2 > x1) make("line", this.svg, { class: "level", x1, x2, y1: this.y(level), y2: this.y(level) });
        const x = this.x(until - 0.5);
        if (change && x >= LEFT && x <= this.width - RIGHT) make("line", this.svg, { class: change.worse ? "mark worse" : "mark", x1: x, x2: x, y1: TOP, y2: HEIGHT - BOTTOM });
        before = until;
      }
    }
    zoom(from, to) {
      if (to - from < LEAST) { const middle = (from + to) / 2; from = middle - LEAST / 2; to = middle + LEAST / 2; }
      const size = Math.min(to - from, this.all[1] - this.all[0]);
      const start = Math.min(Math.max(from, this.all[0]), this.all[1] - size);
      this.view = [start, start + size];
      this.draw();
    }
    around(center, factor) {
      this.zoom(center - (center - this.view[0]) * factor, center + (this.view[1] - center) * factor);
    }
    listen() {
      let began = null;
      const at = (event) => {
        const box = this.svg.getBoundingClientRect();
        return (event.clientX - box.left) * this.width / box.width;
      };
      this.svg.addEventListener("pointerdown", (event) => { began = at(event); this.svg.setPointerCapture(event.pointerId); });
      this.svg.addEventListener("pointermove", (event) => {
        const x = at(event);
        this.show(x, event);
        if (began === null) return;
        this.chosen.setAttribute("x", Math.min(began, x));
        this.chosen.setAttribute("width", Math.abs(x - began));
      });
      this.svg.addEventListener("pointerup", (event) => {
        const x = at(event);
        if (began !== null && Math.abs(x - began) > 8) this.zoom(this.index(Math.min(began, x)), this.index(Math.max(began, x)));
        began = null;
        this.chosen.setAttribute("width", 0);
      });
      this.svg.addEventListener("pointerleave", () => { this.tip.hidden = true; });
      this.svg.addEventListener("dblclick", () => { this.view = this.all; this.draw(); });
      this.svg.addEventListener("wheel", (event) => {
        event.preventDefault();
        this.around(this.index(at(event)), event.deltaY > 0 ? 1.25 : 0.8);
      }, { passive: false });
      this.svg.addEventListener("keydown", (event) => {
        const middle = (this.view[0] + this.view[1]) / 2, step = (this.view[1] - this.view[0]) / 5;
        const actions = {
          "+": () => this.around(middle, 0.7), "=": () => this.around(middle, 0.7), "-": () => this.around(middle, 1.4),
          ArrowLeft: () => this.zoom(this.view[0] - step, this.view[1] - step),
          ArrowRight: () => this.zoom(this.view[0] + step, this.view[1] + step),
          0: () => { this.view = this.all; this.draw(); },
        };
        if (actions[event.key]) { event.preventDefault(); actions[event.key](); }
      });
    }
    show(x, event) {
      const [first, last] = this.span();
      const index = Math.min(Math.max(Math.round(this.index(x)), first), last);
      const [entry, value] = this.points[index];
      const [commit, day, title] = data.entries[entry];
      this.tip.textContent = [this.write(value), commit, day, title].filter(Boolean).join(" · ");
      this.tip.hidden = false;
      const box = this.place.getBoundingClientRect();
      const left = Math.min(this.x(index) * box.width / this.width + 12, box.width - this.tip.offsetWidth - 4);
      this.tip.style.left = `${Math.max(left, 0)}px`;
      this.tip.style.top = `${event.clientY - box.top + 14}px`;
    }
  }
  const places = document.querySelectorAll(".plot");
  // What is not on the screen is drawn when it comes there: a page may have dozens.
  const watch = new IntersectionObserver((found) => {
    for (const each of found) if (each.isIntersecting) { watch.unobserve(each.target); new Plot(each.target); }
  }, { rootMargin: "400px" });
  for (const place of places) { place.style.minHeight = `${HEIGHT}px`; watch.observe(place); }
})();
