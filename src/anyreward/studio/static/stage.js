// The card with the picture: which view, step and shade are shown, the legend, zoom, and an episode that is played in it.
import { HEATS } from "./cells.js";
import { Scene, layoutOf } from "./scene.js";
import { Table, graph } from "./views.js";
import { choice, h, many, percent, put, said } from "./tools.js";

const VIEWS = { grid: "Grid", line: "Line", variables: "Variables", time: "Over time", graph: "Neighbours", table: "Table" };
const MOST_CELLS = 300_000; // of all steps and states at once
const HELP = "Arrow keys move to other states, which are read out. Plus and minus zoom, zero fits. The table has the same in text.";

export class Stage {
  constructor(app) {
    this.app = app;
    this.step = null; // null: all steps
    this.axes = [0, 1];
    const p = app.picture;
    const there = { grid: p.grid, line: !p.grid, variables: p.variables, graph: !app.still, time: p.n_states * p.horizon <= MOST_CELLS, table: true };
    this.views = Object.keys(VIEWS).filter((view) => there[view]);
    this.view = p.grid ? "grid" : p.variables ? "variables" : "line";
    if (app.still) this.#restore(app.model.kept.view);
    this.#build();
  }

  #build() {
    const { app } = this, { cells, picture: p } = app;
    const on = { help: "canvas-help", paint: (s, step, mark) => app.brushed(s, step, mark), hover: (s, step, byKey) => this.hovered(s, byKey) };
    this.scene = new Scene(`States of ${p.env}`, this.#source(cells), on);
    this.second = new Scene("The other reward", this.#source({ cell: (s, step) => app.two.cells?.cell(s, step) ?? { known: true, heat: 0 } }, false), { ...on, paint: (s) => app.choose(s) });
    this.table = new Table(app);
    this.frames = { canvas: h("div", { class: "frame" }, this.scene.canvas), second: h("div", { class: "frame", hidden: true }, this.second.canvas), other: h("div", { class: "frame free", hidden: true }) };
    this.hint = h("p", { class: "hint soft", "aria-hidden": "true" });
    this.legend = h("ul", { class: "legend", "aria-label": "legend" });
    this.tabs = h("div", { class: "tabs", role: "group", "aria-label": "view" });
    this.axesBox = h("span", { class: "axes" });
    const shades = Object.entries(HEATS).filter(([key]) => !app.still || ["time", "data", ...(app.model.kept.explain ? ["why"] : [])].includes(key));
    this.shadeBox = choice("shade by", shades, cells.heat, (heat) => { cells.heat = heat; cells.needsHeat() ? app.plan() : this.redraw(); });
    const tool = (name, text, onclick, more = {}) => h("button", { "aria-label": name, onclick, ...more }, text);
    this.hand = app.still ? null : tool("move the picture", "Move", () => { this.scene.move = !this.scene.move; this.hand.setAttribute("aria-pressed", String(this.scene.move)); }, { "aria-pressed": "false", title: "Move instead of painting" });
    this.zoomBox = h("div", { class: "zoom", role: "group", "aria-label": "zoom" },
      tool("zoom out", "−", () => this.scene.scale(1 / 1.3)), tool("fit", "⤢", () => this.scene.fit()), tool("zoom in", "+", () => this.scene.scale(1.3)), this.hand);
    this.stepText = h("output", { class: "soft" });
    this.slider = h("input", { type: "range", min: -1, max: p.horizon - 1, value: this.step ?? -1, "aria-label": "step", oninput: () => this.toStep(Number(this.slider.value)) });
    this.everyStep = h("button", { "aria-pressed": "true", onclick: () => this.toStep(-1) }, "All steps");
    this.playButton = app.still ? null : h("button", { onclick: () => this.play() }, "▶ Play an episode");
    this.node = h("section", { class: "card stage", "aria-label": "picture" },
      h("div", { class: "row toolbar" }, this.tabs, this.axesBox, h("span", { class: "grow" }), this.shadeBox, this.zoomBox),
      h("p", { id: "canvas-help", class: "unseen" }, app.still ? HELP : `${HELP} Space paints with the brush.`),
      h("div", { class: "pictures" }, this.frames.canvas, this.frames.second), this.frames.other, this.legend, this.hint,
      h("div", { class: "row steps" }, this.everyStep, this.slider, this.stepText, this.playButton));
  }

  // What a scene asks for while it is drawn.
  #source(cells, first = true) {
    const read = (name) => getComputedStyle(this.node).getPropertyValue(name).trim();
    return {
      look: () => (this.look ??= Object.fromEntries(["cell", "blank", "heat", "plus", "minus", "ink", "soft", "differ", "focus", "way"].map((name) => [name, read(`--${name}`)]))),
      cell: (s, step) => cells.cell(s, step ?? this.step),
      chosen: () => this.app.chosen,
      byStep: () => this.view === "time",
      way: () => (first ? this.way : null),
    };
  }

  show() {
    this.hovered(null);
    this.toView(this.view);
    this.toStep(this.step ?? -1);
  }

  // Colours have changed.
  repaint() {
    this.look = null;
    this.redraw();
  }

  toView(view) {
    this.view = view;
    const { app, frames } = this, canvas = !["graph", "table"].includes(view), p = app.picture;
    put(this.tabs, this.views.map((each) => h("button", { "aria-pressed": String(each === view), onclick: () => this.toView(each) }, VIEWS[each])));
    const axis = (k) => choice(k ? "vertical variable" : "horizontal variable", p.variables.map((v, i) => [i, `${k ? "↕" : "↔"} ${v.name}`]), this.axes[k], (v) => {
      if (this.axes[1 - k] === Number(v)) this.axes[1 - k] = this.axes[k];
      this.axes[k] = Number(v);
      this.toView("variables");
    });
    put(this.axesBox, view === "variables" ? [axis(0), axis(1)] : null);
    frames.canvas.hidden = this.zoomBox.hidden = this.shadeBox.hidden = this.legend.hidden = !canvas;
    frames.second.hidden = !canvas || !app.two.other;
    frames.other.hidden = canvas;
    if (canvas) {
      const layout = layoutOf(view, p, this.axes);
      for (const frame of [frames.canvas, frames.second]) frame.classList.toggle("low", layout.height <= 2);
      this.scene.show(layout);
      this.second.show(layout);
    } else if (view === "table") put(frames.other, this.table.node);
    else if (app.chosen === null) app.choose(p.start[0] ?? 0);
    else app.detail();
    this.redraw();
  }

  // Leaves the table and the graph for a view in which things can be painted and played.
  toCanvas() {
    this.toView(["graph", "table"].includes(this.view) ? this.views[0] : this.view);
  }

  neighbours(found) {
    if (this.view === "graph") put(this.frames.other, graph(found, this.app));
  }

  toStep(step) {
    this.step = step < 0 ? null : Math.min(step, this.app.picture.horizon - 1);
    this.slider.value = step;
    put(this.stepText, this.step === null ? "each state when the plan is likeliest there" : `step ${this.step} of ${this.app.picture.horizon}`);
    this.slider.setAttribute("aria-valuetext", this.step === null ? "all steps" : `step ${this.step}`);
    this.everyStep.setAttribute("aria-pressed", String(this.step === null));
    this.redraw();
    this.app.stateShown();
  }

  redraw() {
    this.#explainColours();
    if (this.view === "table") this.table.draw();
    else {
      this.scene.draw();
      if (this.app.two.other) this.second.draw();
    }
  }

  #explainColours() {
    const { cells } = this.app, text = [HEATS[cells.heat], Boolean(cells.differ)].join();
    if (text === this.explained) return;
    this.explained = text;
    const one = (kind, words) => h("li", {}, h("i", { class: kind }), words);
    put(this.legend, one("heat", HEATS[cells.heat]), one("plus", "pays"), one("minus", "costs"), one("faint", "the plan never gets there"), cells.differ ? one("differ", "the plans differ") : null);
  }

  hovered(s, byKey = false) {
    const { app } = this, { terms } = app.reward;
    if (s === null) { put(this.hint, !app.still && terms.length === 1 && terms[0].strokes && !terms[0].strokes.length ? "Press a state to paint it with the brush, or add a term." : "\u00a0"); return; }
    const { words } = app.cells.actionAt(s, this.step), pays = app.cells.rewardAt(s, this.step) || 0;
    const text = `${app.nameOf(s)}: ${words}; pays ${pays ? `up to ${said(pays)}` : 0}; ${percent(app.cells.timeAt(s, this.step))} of the time; seen ${many(app.picture.visited[s])} times`;
    put(this.hint, text);
    if (byKey) app.tell(text);
  }

  // An episode in the explored model.
  async play() {
    if (this.playing) { this.stop(); return; }
    const { app } = this, { horizon, n_states: S } = app.picture;
    const found = await app.ask("play", { ...app.answered, seed: Math.floor(Math.random() * 2 ** 30) }, app.status);
    if (!found) return;
    this.toCanvas();
    const before = this.step;
    let at = 0, paid = 0;
    put(this.playButton, "◼ Stop");
    this.stop = () => {
      this.end();
      put(this.playButton, "▶ Play an episode");
      put(app.status, `This episode earned ${said(paid)} in ${found.actions.length} steps.`);
      this.toStep(before ?? -1);
    };
    const tick = () => {
      if (at >= found.states.length) { this.stop(); return; }
      this.way = found.states.slice(0, at + 1).filter((s) => s < S).map((s, i) => [s, Math.min(i, horizon - 1)]);
      if (at > 0) paid += found.paid[at - 1];
      put(app.status, `Step ${at}: ${found.names[at]}, earned ${said(paid)}`);
      this.toStep(Math.min(at, horizon - 1));
      at += 1;
    };
    this.playing = setInterval(tick, matchMedia("(prefers-reduced-motion: reduce)").matches ? 700 : Math.max(90, 4000 / found.states.length));
    tick();
  }

  end() {
    clearInterval(this.playing);
    this.playing = this.way = null;
  }

  // The view as it is kept in an exported page.
  now() {
    const { cells, root } = this.app;
    return { view: this.view, step: this.step, heat: cells.needsHeat() ? "time" : cells.heat, axes: this.axes, theme: root.dataset.theme ?? null };
  }

  #restore(view) {
    const { app } = this;
    if (this.views.includes(view.view)) this.view = view.view;
    if (Array.isArray(view.axes) && app.picture.variables) this.axes = view.axes;
    this.step = Number.isInteger(view.step) ? view.step : null;
    if (view.heat in HEATS) app.cells.heat = view.heat;
    if (view.theme) app.root.dataset.theme = view.theme;
  }
}
