// The states on a canvas: a grid, a line, several variables as small multiples, states over time, the neighbourhood of a state.
import { clamp, h, said } from "./tools.js";

// Where states are drawn, in units of a cell. `each` calls back for the cells of a window: (state, step or null, x, y).
export function layoutOf(kind, picture, axes) {
  const S = picture.n_states, H = picture.horizon;
  if (kind === "grid") {
    const [rows, cols] = picture.grid, n = Math.min(S, rows * cols);
    return boxed({ width: cols, height: rows, at: (x, y) => { const s = y * cols + x; return s < n ? [s, null] : null; },
      place: (s) => (s < n ? [s % cols, Math.floor(s / cols)] : null), labels: [] });
  }
  if (kind === "time") {
    return boxed({ width: S, height: H, at: (x, y) => [x, y], place: (s, step) => [s, step ?? 0], labels: stepLabels(H), stretch: 6 });
  }
  if (kind === "variables") return small(picture, axes);
  const cols = S <= 64 ? S : Math.ceil(Math.sqrt(S * 2.2));
  return boxed({ width: cols, height: Math.ceil(S / cols), at: (x, y) => { const s = y * cols + x; return s < S ? [s, null] : null; },
    place: (s) => [s % cols, Math.floor(s / cols)], labels: [], stretch: S <= 64 ? 2.4 : 0 });
}

function stepLabels(H) {
  const every = Math.max(1, Math.ceil(H / 12));
  return Array.from({ length: H }, (_, i) => i).filter((i) => i % every === 0).map((i) => ({ x: -0.15, y: i + 0.5, text: `step ${i}`, align: "right" }));
}

function boxed(layout) {
  const at = layout.at;
  layout.at = (x, y) => at(Math.floor(x), Math.floor(y));
  layout.each = (x0, y0, x1, y1, draw) => {
    for (let y = Math.max(0, Math.floor(y0)); y < Math.min(layout.height, y1); y++) {
      for (let x = Math.max(0, Math.floor(x0)); x < Math.min(layout.width, x1); x++) {
        const found = layout.at(x, y);
        if (found) draw(found[0], found[1], x, y);
      }
    }
  };
  return layout;
}

// Two variables are the axes, all others are panels.
function small(picture, axes) {
  const vars = picture.variables, { shape: [S, k], values } = picture.placed;
  const nx = vars[axes[0]].values.length, ny = vars[axes[1]].values.length;
  const others = vars.map((_, i) => i).filter((i) => !axes.includes(i));
  const sizes = others.map((i) => vars[i].values.length), panels = sizes.reduce((a, b) => a * b, 1);
  const across = Math.ceil(Math.sqrt((panels * (ny + 2)) / (nx + 1))), where = new Map(), spot = new Array(S).fill(null), labels = [];
  const corner = (p) => [(p % across) * (nx + 1), Math.floor(p / across) * (ny + 1.6)];
  for (let p = 0; p < panels && panels > 1; p++) {
    let rest = p;
    const words = others.map((i, j) => { const v = rest % sizes[j]; rest = Math.floor(rest / sizes[j]); return `${vars[i].name} ${vars[i].values[v]}`; });
    labels.push({ x: corner(p)[0], y: corner(p)[1] + 0.6, text: words.join(", "), align: "left", room: nx });
  }
  const top = panels > 1 ? 1 : 0;
  for (let s = 0; s < S; s++) {
    const v = values.subarray(s * k, s * k + k);
    if (v[axes[0]] >= nx) continue;
    let p = 0;
    for (let j = others.length - 1; j >= 0; j--) p = p * sizes[j] + v[others[j]];
    spot[s] = [corner(p)[0] + v[axes[0]], corner(p)[1] + top + v[axes[1]]];
    where.set(spot[s].map((x) => Math.floor(x)).join(), s);
  }
  if (panels === 1) {
    for (let i = 0; i < nx; i += Math.ceil(nx / 12)) labels.push({ x: i + 0.5, y: ny, down: 13, text: `${i ? "" : vars[axes[0]].name + " "}${vars[axes[0]].values[i]}`, align: "center", room: 1.6 });
    for (let i = 0; i < ny; i += Math.ceil(ny / 12)) labels.push({ x: -0.15, y: i + 0.5, text: `${i ? "" : vars[axes[1]].name + " "}${vars[axes[1]].values[i]}`, align: "right" });
  }
  const last = corner(panels - 1);
  return {
    width: Math.min(panels, across) * (nx + 1) - 1, height: last[1] + top + ny, labels,
    place: (s) => spot[s], at: (x, y) => { const s = findNear(where, spot, x, y); return s === undefined ? null : [s, null]; },
    each: (x0, y0, x1, y1, draw) => spot.forEach((at, s) => {
      if (at && at[0] + 1 > x0 && at[0] < x1 && at[1] + 1 > y0 && at[1] < y1) draw(s, null, at[0], at[1]);
    }),
  };
}

function findNear(where, spot, x, y) {
  for (const dy of [0, -1]) {
    const s = where.get([Math.floor(x), Math.floor(y) + dy].join());
    if (s !== undefined && y >= spot[s][1] && y < spot[s][1] + 1) return s;
  }
  return undefined;
}

export class Scene {
  // `source` says what is drawn: see `cell` in studio.js. `on` has paint, choose and hover.
  constructor(name, source, on) {
    this.source = source;
    this.on = on;
    this.layout = null;
    this.zoom = 0;
    this.move = false;
    this.cursor = 0;
    this.cursorStep = 0;
    this.pointers = new Map();
    this.canvas = h("canvas", { tabindex: "0", role: "application", "aria-label": name, "aria-describedby": on.help });
    const c = this.canvas;
    c.addEventListener("pointerdown", (e) => this.#down(e));
    c.addEventListener("pointermove", (e) => this.#moved(e));
    for (const end of ["pointerup", "pointercancel"]) c.addEventListener(end, (e) => this.#up(e));
    c.addEventListener("pointerleave", () => on.hover(null));
    c.addEventListener("contextmenu", (e) => e.preventDefault());
    c.addEventListener("wheel", (e) => { e.preventDefault(); this.scale(Math.exp(-e.deltaY / 400), e.offsetX, e.offsetY); }, { passive: false });
    c.addEventListener("keydown", (e) => this.#key(e));
    c.addEventListener("focus", () => this.draw());
    c.addEventListener("blur", () => this.draw());
    new ResizeObserver(() => { this.fitted ? this.fit() : this.draw(); }).observe(c);
  }

  show(layout) {
    this.layout = layout;
    this.fit();
  }

  get size() {
    return [this.canvas.clientWidth, this.canvas.clientHeight];
  }

  fit() {
    const [w, t] = this.size, l = this.layout;
    if (!l || !w || !t) return;
    const left = l.labels.some((each) => each.align === "right") ? 76 : 10;
    const below = l.labels.length ? 26 : 10;
    this.zoom = Math.min((w - left - 10) / l.width, (t - below - 10) / l.height, 110);
    this.squash = l.stretch ? clamp((t - below - 10) / l.height / this.zoom, 1, l.stretch) : 1;
    this.x = (w + left - 10 - this.zoom * l.width) / 2;
    this.y = (t - below + 10 - this.zoom * this.squash * l.height) / 2;
    this.fitted = true;
    this.draw();
  }

  scale(factor, cx = this.size[0] / 2, cy = this.size[1] / 2) {
    const next = clamp(this.zoom * factor, 0.3, 200), k = next / this.zoom;
    this.x = cx - k * (cx - this.x);
    this.y = cy - k * (cy - this.y);
    this.zoom = next;
    this.fitted = false;
    this.draw();
  }

  draw() {
    if (!this.waiting) this.waiting = requestAnimationFrame(() => { this.waiting = 0; this.paintNow(); });
  }

  paintNow() {
    const [w, t] = this.size, ratio = window.devicePixelRatio || 1, c = this.canvas;
    if (!this.layout || !w) return;
    if (c.width !== Math.round(w * ratio) || c.height !== Math.round(t * ratio)) [c.width, c.height] = [Math.round(w * ratio), Math.round(t * ratio)];
    const g = c.getContext("2d"), z = this.zoom, zy = z * this.squash, gap = z > 14 ? 1 : z > 5 ? 0.5 : 0;
    g.setTransform(ratio, 0, 0, ratio, 0, 0);
    g.clearRect(0, 0, w, t);
    const look = this.source.look();
    const chosen = this.source.chosen();
    const ring = [];
    this.layout.each(-this.x / z, -this.y / zy, (w - this.x) / z, (t - this.y) / zy, (s, step, cx, cy) => {
      const x = this.x + cx * z + gap / 2, y = this.y + cy * zy + gap / 2, a = z - gap, b = zy - gap;
      const cell = this.source.cell(s, step);
      g.globalAlpha = 1;
      g.fillStyle = cell.known ? look.cell : look.blank;
      box(g, x, y, a, b, z > 14 ? 3 : 0);
      if (cell.heat > 0) {
        g.globalAlpha = clamp(cell.heat, 0.03, 1);
        g.fillStyle = look.heat;
        box(g, x, y, a, b, z > 14 ? 3 : 0);
      }
      if (cell.reward) {
        g.globalAlpha = 0.35 + 0.6 * Math.abs(cell.share);
        g.fillStyle = cell.reward > 0 ? look.plus : look.minus;
        const m = z > 9 ? Math.max(1.5, 0.11 * a) : 0;
        box(g, x + m, y + m, a - 2 * m, b - 2 * m, z > 14 ? 3 : 0);
      }
      g.globalAlpha = 1;
      if (z >= 9 && cell.sign) sign(g, cell, x + a / 2, y + b / 2, Math.min(a, b), a, look);
      if (z >= 40 && cell.reward) {
        g.font = `600 ${clamp(z / 5.5, 9, 14)}px system-ui, sans-serif`;
        g.fillStyle = look.ink;
        g.textAlign = "right";
        g.textBaseline = "alphabetic";
        g.fillText(said(cell.reward, 3), x + a - 4, y + b - 5);
      }
      if (cell.differs) ring.push([x, y, a, b, look.differ, [4, 3]]);
      if (s === chosen && (step === null || step === this.cursorStep)) ring.push([x, y, a, b, look.ink, []]);
      if (s === this.cursor && (step === null || step === this.cursorStep) && document.activeElement === c) ring.push([x - 2, y - 2, a + 4, b + 4, look.focus, []]);
    });
    for (const [x, y, a, b, color, dash] of ring) {
      g.strokeStyle = color;
      g.lineWidth = 2;
      g.setLineDash(dash);
      g.strokeRect(x + 1, y + 1, a - 2, b - 2);
    }
    g.setLineDash([]);
    this.#labels(g, look, z, zy);
    this.#way(g, look, z, zy);
  }

  #labels(g, look, z, zy) {
    g.font = "12px system-ui, sans-serif";
    g.fillStyle = look.soft;
    g.textBaseline = "middle";
    for (const each of this.layout.labels) {
      g.textAlign = each.align;
      const room = (each.room ?? 99) * z;
      if (room > 26) g.fillText(shorter(g, each.text, room), this.x + each.x * z, this.y + each.y * zy + (each.down ?? 0));
    }
  }

  // A trajectory that is being played.
  #way(g, look, z, zy) {
    const way = this.source.way();
    if (!way) return;
    const at = way.map(([s, step]) => this.layout.place(s, step)).filter(Boolean).map(([x, y]) => [this.x + (x + 0.5) * z, this.y + (y + 0.5) * zy]);
    g.strokeStyle = look.way;
    g.lineWidth = clamp(z / 9, 1.5, 4);
    g.lineJoin = "round";
    g.beginPath();
    at.forEach(([x, y], i) => (i ? g.lineTo(x, y) : g.moveTo(x, y)));
    g.stroke();
    const end = at[at.length - 1];
    if (!end) return;
    g.fillStyle = look.way;
    g.beginPath();
    g.arc(...end, clamp(z / 3.6, 4, 11), 0, 7);
    g.fill();
    g.strokeStyle = look.cell;
    g.lineWidth = 2;
    g.stroke();
  }

  found(px, py) {
    return this.#at((px - this.x) / this.zoom, (py - this.y) / (this.zoom * this.squash));
  }

  #at(x, y) {
    const l = this.layout;
    return !l || x < 0 || y < 0 || x >= l.width || y >= l.height ? null : l.at(x, y);
  }

  #down(e) {
    this.canvas.setPointerCapture(e.pointerId);
    this.pointers.set(e.pointerId, [e.offsetX, e.offsetY]);
    this.canvas.focus({ preventScroll: true });
    if (this.pointers.size > 1 || e.button !== 0 || this.move) return;
    this.stroke = `stroke ${e.timeStamp}`;
    this.#brush(e.offsetX, e.offsetY);
  }

  #moved(e) {
    const before = this.pointers.get(e.pointerId);
    if (!before) {
      const at = this.found(e.offsetX, e.offsetY);
      this.on.hover(at ? at[0] : null, at ? at[1] : null);
      return;
    }
    const now = [e.offsetX, e.offsetY];
    if (this.pointers.size === 2) {
      const other = [...this.pointers].find(([id]) => id !== e.pointerId)[1];
      const apart = (p) => Math.max(8, Math.hypot(p[0] - other[0], p[1] - other[1]));
      this.scale(apart(now) / apart(before), (now[0] + other[0]) / 2, (now[1] + other[1]) / 2);
    } else if (this.stroke) {
      const steps = Math.ceil(Math.hypot(now[0] - before[0], now[1] - before[1]) / Math.max(2, this.zoom / 2));
      for (let i = 1; i <= steps; i++) this.#brush(before[0] + ((now[0] - before[0]) * i) / steps, before[1] + ((now[1] - before[1]) * i) / steps);
    } else {
      this.x += now[0] - before[0];
      this.y += now[1] - before[1];
      this.fitted = false;
      this.draw();
    }
    this.pointers.set(e.pointerId, now);
  }

  #up(e) {
    this.pointers.delete(e.pointerId);
    this.stroke = null;
  }

  #brush(px, py) {
    const at = this.found(px, py);
    if (!at) return;
    [this.cursor, this.cursorStep] = [at[0], at[1] ?? this.cursorStep];
    this.on.paint(at[0], at[1], this.stroke);
  }

  // States within the brush around a state.
  around(s, size) {
    const at = this.layout.place(s), r = (size - 1) / 2;
    if (!at || r <= 0) return [s];
    const found = new Set();
    this.layout.each(at[0] - r, at[1] - r, at[0] + r + 0.5, at[1] + r + 0.5, (state) => found.add(state));
    return [...found];
  }

  // States that are connected to one and look the same.
  region(s, same) {
    const seen = new Set([s]), todo = [s];
    while (todo.length) {
      const at = this.layout.place(todo.pop());
      if (!at) continue;
      for (const [dx, dy] of [[1, 0], [-1, 0], [0, 1], [0, -1]]) {
        const next = this.#at(at[0] + dx + 0.5, at[1] + dy + 0.5);
        if (next && !seen.has(next[0]) && same(next[0])) { seen.add(next[0]); todo.push(next[0]); }
      }
    }
    return [...seen];
  }

  #key(e) {
    const moves = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
    if (e.key in moves && !e.ctrlKey && !e.metaKey && !e.altKey) {
      const at = this.layout.place(this.cursor, this.cursorStep), [dx, dy] = moves[e.key];
      if (!at) return;
      for (let k = 1; k < 4; k++) {
        const next = this.#at(at[0] + k * dx + 0.5, at[1] + k * dy + 0.5);
        if (next) { [this.cursor, this.cursorStep] = [next[0], next[1] ?? this.cursorStep]; break; }
      }
      this.on.hover(this.cursor, null, true);
      this.draw();
    } else if (e.key === " " || e.key === "Enter") {
      this.on.paint(this.cursor, this.source.byStep() ? this.cursorStep : null, `key ${e.timeStamp}`);
    } else if (e.key === "+" || e.key === "=") this.scale(1.3);
    else if (e.key === "-") this.scale(1 / 1.3);
    else if (e.key === "0") this.fit();
    else return;
    e.preventDefault();
  }
}

function box(g, x, y, a, b, r) {
  if (!r) { g.fillRect(x, y, a, b); return; }
  g.beginPath();
  g.roundRect(x, y, a, b, r);
  g.fill();
}

const TURN = { "→": 0, "↓": 1, "←": 2, "↑": 3 };

function sign(g, cell, x, y, size, room, look) {
  g.fillStyle = g.strokeStyle = look.ink;
  g.globalAlpha = cell.strong ? 0.95 : 0.33;
  if (cell.sign in TURN) {
    g.save();
    g.translate(x, y);
    g.rotate((TURN[cell.sign] * Math.PI) / 2);
    const r = size * 0.3, k = size * 0.16;
    g.lineWidth = clamp(size * 0.075, 1, 3.2);
    g.lineCap = g.lineJoin = "round";
    g.beginPath();
    g.moveTo(-r, 0);
    g.lineTo(r, 0);
    g.moveTo(r - k, -k);
    g.lineTo(r, 0);
    g.lineTo(r - k, k);
    g.stroke();
    g.restore();
  } else if (cell.sign === "·") {
    g.beginPath();
    g.arc(x, y, clamp(size * 0.07, 1, 4), 0, 7);
    g.fill();
  } else if (size > 13) {
    g.font = `500 ${clamp(size * 0.28, 9, 15)}px system-ui, sans-serif`;
    g.textAlign = "center";
    g.textBaseline = "middle";
    g.fillText(shorter(g, cell.sign, room - 4), x, y);
  }
  g.globalAlpha = 1;
}

function shorter(g, text, room) {
  if (g.measureText(text).width <= room) return text;
  let n = text.length;
  while (n > 1 && g.measureText(`${text.slice(0, n)}…`).width > room) n--;
  return n > 1 ? `${text.slice(0, n)}…` : text.slice(0, 1);
}
