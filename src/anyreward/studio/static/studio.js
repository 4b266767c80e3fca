// The reward studio: `render({model, el})` shows it in an element. What it asks goes through `model.ask(question, asked)`.
import { choice, h, labelled, many, percent, put, said, unpacked } from "./tools.js";
import { Reward } from "./reward.js";
import { Scene, layoutOf } from "./scene.js";
import { comparison, explorePanel, filesPanel, goalPanel, limitsPanel, stateCard, tradePanel, uncertainty, worth } from "./panels.js";
import { Table, graph } from "./views.js";
import { TermsPanel } from "./terms.js";

const VIEWS = { grid: "Grid", line: "Line", variables: "Variables", time: "Over time", graph: "Neighbours", table: "Table" };
const HEATS = { time: "time the plan spends", value: "value from there on", width: "width of the interval from there on", why: "what makes the interval wide", data: "how often it was seen" };

export function render({ model, el }) {
  const app = new App(model.ask ? model : overMessages(model), el);
  app.begin();
  return () => app.end();
}

// A picture without a server: what was asked is in the page.
export function still(kept) {
  const shown = (heat) => (heat === "value" || heat === "width" ? null : kept.plan);
  return { still: true, kept, ask: async (name, asked) => (name === "hello" ? kept.hello : name === "explain" ? kept.explain : shown(asked.heat) ?? kept.plan) };
}

// Questions as messages of a notebook widget.
function overMessages(model) {
  const waiting = new Map();
  let number = 0;
  model.on("msg:custom", ({ number: n, answer }) => {
    const done = waiting.get(n);
    waiting.delete(n);
    if (!done) return;
    if (answer.error) done.fail(new Error(answer.error));
    else done.well(answer);
  });
  return { ask: (name, asked) => new Promise((well, fail) => { waiting.set((number += 1), { well, fail }); model.send({ name, asked, number }); }) };
}

class App {
  constructor(model, el) {
    this.model = model;
    this.still = Boolean(model.still);
    this.root = h("div", { class: "ars" }, h("p", { class: "soft waiting", role: "status" }, "The studio is being opened …"));
    el.append(this.root);
    this.root.app = this; // for those who want to look behind it
    this.tab = Math.random().toString(36).slice(2);
    this.turn = this.open = this.era = 0;
    this.step = null; // null: all steps
    this.heat = "time";
    this.cautious = false;
    this.chosen = null;
    this.brush = { value: 1, size: 1, fill: false, actions: null, steps: null };
    this.echo = new Map(); // what was painted since the last plan
    this.reward = new Reward(() => this.changed());
  }

  // Asks a question; an error becomes a sentence in `out`.
  async ask(name, asked, out = null) {
    const { era } = this;
    try {
      const answer = await this.model.ask(name, { atlas: this.hello?.atlas, tab: this.tab, turn: (this.turn += 1), ...asked });
      if (answer.superseded || era !== this.era) return null; // or it is about another atlas than what is shown now
      if (out) put(out);
      return answer;
    } catch (problem) {
      if (era !== this.era) return null;
      if (out) put(out, h("p", { class: "error", role: "alert" }, problem.message));
      else throw problem;
      return null;
    }
  }

  async begin() {
    try {
      this.meet(await this.model.ask("hello", {}));
    } catch (problem) {
      put(this.root, h("div", { class: "card alone" }, h("h1", {}, "Reward studio"), h("p", { class: "error", role: "alert" }, problem.message)));
      return;
    }
    const linked = this.model.address?.get();
    if (linked) {
      await Reward.fromLink(linked).then((terms) => { this.reward.terms = terms; }, () => this.tell("The reward of this link is damaged: it begins with an empty one."));
    } else if (this.still) {
      this.reward.terms = this.model.kept.reward.terms;
      this.cautious = this.model.kept.cautious;
      this.restore(this.model.kept.view);
    }
    this.build();
    this.ready = true;
    this.plan();
  }

  end() {
    this.ended = true;
    clearInterval(this.playing);
    this.root.remove();
  }

  meet(hello) {
    this.hello = hello;
    const p = (this.picture = hello.picture);
    p.visited = unpacked(p.visits).values;
    p.placed = unpacked(p.places);
    this.axes ??= [0, 1];
    const views = Object.keys(VIEWS).filter((view) => (view === "grid" ? p.grid : view === "line" ? !p.grid : view === "variables" ? p.variables : view === "graph" ? !this.still : true));
    this.views = views.filter((view) => view !== "time" || p.n_states * p.horizon <= 300_000);
    if (!this.views.includes(this.view)) this.view = p.grid ? "grid" : p.variables ? "variables" : "line";
  }

  nameOf(s) {
    return this.picture.states?.[s] ?? `state ${s}`;
  }

  example() {
    const [name] = this.picture.names;
    return name ? `${name} == 0` : `state == ${this.picture.n_states - 1}`;
  }

  // What is drawn of a state at a step (null: all of them).

  actionAt(s, step) {
    const { n_states: S, n_actions: A, actions, signs, visited } = this.picture;
    if (!this.shown) return { words: "–", sign: "", action: -1 };
    const at = step ?? this.shown.likely[s], a = this.shown.policy[at * S + s];
    if (a === A) return { words: "any", sign: "·", action: -1 };
    return { words: `${signs[a] ? `${signs[a]} ` : ""}${actions[a]}`, sign: visited[s] ? signs[a] || actions[a] : "·", action: a };
  }

  timeAt(s, step) {
    const S = this.picture.n_states;
    if (!this.shown) return 0;
    return step === null ? this.shown.time[s] / this.picture.horizon : this.shown.reach[step * S + s];
  }

  rewardAt(s, step) {
    if (this.echo.has(s)) return this.echo.get(s);
    if (!this.shown) return 0;
    const S = this.picture.n_states, { reward, rows, extreme } = this.shown;
    return rows === 1 ? reward[s] : step === null ? extreme[s] : reward[step * S + s];
  }

  heatAt(s, step) {
    const S = this.picture.n_states, f = this.shown;
    if (!f) return 0;
    if (this.heat === "time") return Math.sqrt(step === null ? f.time[s] / f.mostTime : f.reach[step * S + s] / f.mostAt[step]) * 0.85;
    if (this.heat === "data") return (Math.log1p(this.picture.visited[s]) / Math.log1p(this.mostVisited)) * 0.8;
    if (this.heat === "why") return f.why ? Math.sqrt(f.why[s] / f.mostWhy) * 0.9 : 0;
    if (!f.heat) return 0;
    const v = f.heat[(step ?? 0) * S + s];
    return ((v - f.heatEnds[0]) / (f.heatEnds[1] - f.heatEnds[0] || 1)) * 0.85;
  }

  cell(s, step) {
    const at = step ?? this.step, reward = this.rewardAt(s, at) || 0, { sign, action } = this.actionAt(s, at);
    const differs = this.differ && (at === null ? this.differ.any[s] : this.differ.values[at * this.picture.n_states + s]);
    return { known: this.picture.visited[s] > 0, heat: this.heatAt(s, at), reward, share: reward / (this.shown?.mostReward || 1), sign, action,
      strong: this.timeAt(s, at) > 1e-9, differs };
  }

  source(other = null) {
    const read = (name) => getComputedStyle(this.root).getPropertyValue(name).trim();
    return {
      look: () => (this.look ??= Object.fromEntries(["cell", "blank", "heat", "plus", "minus", "ink", "soft", "differ", "focus", "way"].map((name) => [name, read(`--${name}`)]))),
      cell: (s, step) => {
        if (!other) return this.cell(s, step);
        const mine = this.shown;
        this.shown = other();
        const found = this.shown ? this.cell(s, step) : { known: true, heat: 0 };
        this.shown = mine;
        return found;
      },
      chosen: () => this.chosen,
      byStep: () => this.view === "time",
      way: () => (other ? null : this.way),
    };
  }

  // What the page consists of.

  build() {
    const p = this.picture;
    this.mostVisited = p.visited.reduce((a, b) => Math.max(a, b), 1);
    this.status = h("p", { class: "status", role: "status" });
    this.live = h("div", { class: "unseen", "aria-live": "polite" });
    const on = { help: "canvas-help", paint: (s, step, mark) => this.brushed(s, step, mark), hover: (s, step, byKey) => this.hovered(s, byKey), };
    this.scene = new Scene(`States of ${p.env}`, this.source(), on);
    this.second = new Scene("The other reward", this.source(() => this.otherShown), { ...on, paint: (s) => this.choose(s) });
    this.table = new Table(this);
    this.frames = { canvas: h("div", { class: "frame" }, this.scene.canvas), second: h("div", { class: "frame", hidden: true }, this.second.canvas), other: h("div", { class: "frame free", hidden: true }) };
    this.hint = h("p", { class: "hint soft", "aria-hidden": "true" });
    this.tabs = h("div", { class: "tabs", role: "group", "aria-label": "view" });
    this.axesBox = h("span", {});
    this.stepText = h("output", { class: "soft" });
    this.slider = h("input", { type: "range", min: -1, max: p.horizon - 1, value: this.step ?? -1, "aria-label": "step", oninput: () => this.toStep(Number(this.slider.value)) });
    this.worthBox = h("div", {});
    this.why = h("div", {}, h("p", { class: "soft" }, "…"));
    this.about = h("div", {}, h("p", { class: "soft" }, "Choose a state to see what the plan does there: paint it, or press its name in the table."));
    this.comparing = h("section", { class: "card", hidden: true, "aria-label": "both rewards" });
    this.goBack = h("div", { class: "instead", hidden: true });
    const careful = h("input", { type: "checkbox", checked: this.cautious, disabled: this.still, onchange: () => { this.cautious = careful.checked; this.changed(); } });
    const panel = (title, nodes, open = false) => h("details", { class: "card fold", open }, h("summary", {}, h("h2", {}, title)), h("div", {}, nodes));
    this.trade = this.still ? null : tradePanel(this);
    this.terms = this.still ? null : new TermsPanel(this);
    const theme = h("button", { "aria-label": "light or dark", title: "Light or dark", onclick: () => this.theme() }, "◐");
    const several = this.hello.atlases.length > 1;
    this.pick = several ? choice("atlas", this.hello.atlases.map((name) => [name, name]), this.hello.atlas, (name) => this.turnTo(name)) : null;
    this.head = h("p", { class: "about" });
    this.summarise();
    put(this.root,
      h("header", {}, h("div", { class: "title" }, h("h1", {}, "Reward studio"), this.pick, h("span", { class: "env" }, this.hello.atlas === "atlas" || this.pick ? p.env : this.hello.atlas)), this.head, theme),
      h("main", {},
        this.still ? null : h("div", { class: "left" }, this.terms.node),
        h("div", { class: "middle" },
          h("section", { class: "card stage", "aria-label": "picture" },
            h("div", { class: "row toolbar" }, this.tabs, this.axesBox, h("span", { class: "grow" }),
              this.shadeBox = choice("shade by", Object.entries(HEATS).filter(([key]) => !this.still || ["time", "data", ...(this.model.kept.explain ? ["why"] : [])].includes(key)), this.heat, (v) => { this.heat = v; this.needsHeat() ? this.plan() : this.redraw(); }),
              this.zoomBox = h("div", { class: "zoom", role: "group", "aria-label": "zoom" },
                h("button", { "aria-label": "zoom out", onclick: () => this.scene.scale(1 / 1.3) }, "−"), h("button", { "aria-label": "fit", onclick: () => this.scene.fit() }, "⤢"), h("button", { "aria-label": "zoom in", onclick: () => this.scene.scale(1.3) }, "+"),
                this.still ? null : (this.hand = h("button", { "aria-pressed": "false", "aria-label": "move the picture", title: "Move instead of painting", onclick: () => { this.scene.move = !this.scene.move; this.hand.setAttribute("aria-pressed", String(this.scene.move)); } }, "Move")))),
            h("p", { id: "canvas-help", class: "unseen" }, this.still ? "Arrow keys move to other states, which are read out. Plus and minus zoom." : "Arrow keys move to other states, which are read out. Space paints with the brush. Plus and minus zoom, zero fits. The table has the same in text."),
            h("div", { class: "pictures" }, this.frames.canvas, this.frames.second), this.frames.other, this.hint,
            h("div", { class: "row steps" }, h("button", { "aria-pressed": "true", onclick: () => this.toStep(-1) }, "All steps"), this.slider, this.stepText,
              this.still ? null : (this.playButton = h("button", { onclick: () => this.play() }, "▶ Play an episode")))),
          this.goBack, this.still ? null : this.comparing),
        h("div", { class: "right" },
          h("section", { class: "card first", "aria-labelledby": "worth-title" }, h("div", { class: "head" }, h("h2", { id: "worth-title" }, "What the plan is worth"), labelled("cautious", careful, { class: "check", title: "The plan whose guaranteed value is largest" })), this.worthBox, this.status),
          h("section", { class: "card", "aria-labelledby": "why-title" }, h("h2", { id: "why-title" }, "What makes the interval wide"), this.why),
          this.still ? null : h("section", { class: "card", "aria-labelledby": "state-title" }, h("h2", { id: "state-title" }, "This state"), this.about),
          this.still ? null : [
            panel("Two rewards side by side", [h("div", { class: "row" }, h("button", { onclick: () => this.compareWith(this.reward.terms, "the one set aside") }, "Set this reward aside"), h("button", { onclick: () => this.compareWith(null) }, "End it")),
              h("p", { class: "soft" }, "Set a reward aside, design another one, and see both plans with what each is worth under the other's reward.")]),
            panel("Goals", goalPanel(this)), panel("Limits", limitsPanel(this)), panel("Trade-off", this.trade.nodes),
            panel("Explore", explorePanel(this)), panel("Take it with you", filesPanel(this))])),
      this.live);
    this.root.onkeydown = (e) => this.key(e);
    this.hovered(null);
    this.toView(this.view);
    this.toStep(this.step ?? -1);
    matchMedia("(prefers-color-scheme: dark)").onchange = () => { this.look = null; this.redraw(); };
  }

  summarise() {
    const { problem, certificate: c } = this.picture;
    put(this.head, h("span", {}, problem), h("span", { title: c.text }, c.says_nothing ? "nothing is certified for every reward yet" : `ε = ${c.epsilon_text} for every reward, with probability ${c.sure}`), h("span", {}, `${many(c.episodes)} episodes`));
  }

  tell(text) {
    if (this.live) put(this.live, text);
  }

  theme() {
    const dark = getComputedStyle(this.root).colorScheme.includes("dark");
    this.root.dataset.theme = dark ? "light" : "dark";
    this.look = null;
    this.redraw();
  }

  toView(view) {
    this.view = view;
    put(this.tabs, this.views.map((each) => h("button", { "aria-pressed": String(each === view), onclick: () => this.toView(each) }, VIEWS[each])));
    const canvas = !["graph", "table"].includes(view), p = this.picture;
    const axis = (k) => choice(k ? "vertical variable" : "horizontal variable", p.variables.map((v, i) => [i, `${k ? "↕" : "↔"} ${v.name}`]), this.axes[k], (v) => {
      if (this.axes[1 - k] === Number(v)) this.axes[1 - k] = this.axes[k];
      this.axes[k] = Number(v);
      this.toView("variables");
    });
    put(this.axesBox, view === "variables" ? [axis(0), axis(1)] : null);
    this.frames.canvas.hidden = !canvas;
    this.zoomBox.hidden = this.shadeBox.hidden = !canvas;
    this.frames.second.hidden = !canvas || !this.other;
    this.frames.other.hidden = canvas;
    if (canvas) {
      const layout = layoutOf(view, p, this.axes);
      for (const frame of [this.frames.canvas, this.frames.second]) frame.classList.toggle("low", layout.height <= 2);
      this.scene.show(layout);
      this.second.show(layout);
    } else if (view === "table") put(this.frames.other, this.table.node);
    else if (this.chosen === null) this.choose(p.start[0] ?? 0);
    else this.detail();
    this.redraw();
  }

  toStep(step) {
    this.step = step < 0 ? null : Math.min(step, this.picture.horizon - 1);
    this.slider.value = step;
    put(this.stepText, this.step === null ? "each state when the plan is likeliest there" : `step ${this.step} of ${this.picture.horizon}`);
    this.slider.setAttribute("aria-valuetext", this.step === null ? "all steps" : `step ${this.step}`);
    this.slider.parentElement.firstChild.setAttribute("aria-pressed", String(this.step === null));
    this.redraw();
    if (this.found) put(this.about, stateCard(this.found, this.step, (s) => this.choose(s)));
  }

  redraw() {
    if (!this.scene) return;
    if (this.view === "table") this.table.draw();
    else {
      this.scene.draw();
      if (this.other) this.second.draw();
    }
  }

  key(e) {
    if (e.target.matches("input[type=text], input[type=number], input[type=search], textarea") || !(e.ctrlKey || e.metaKey)) return;
    const undo = e.key.toLowerCase() === "z" && !e.shiftKey, redo = e.key.toLowerCase() === "y" || (e.key.toLowerCase() === "z" && e.shiftKey);
    if (undo || redo) { e.preventDefault(); undo ? this.reward.undo() : this.reward.redo(); }
  }

  hovered(s, byKey = false) {
    const { strokes } = this.reward.terms[0];
    if (s === null && !this.still && this.reward.terms.length === 1 && strokes && !strokes.length) { put(this.hint, "Press a state to paint it with the brush, or add a term."); return; }
    if (s === null) { put(this.hint, "Blue: the shade that is chosen. Gold and pink: what is paid. Faint: the plan never gets there."); return; }
    const { words } = this.actionAt(s, this.step), pays = this.rewardAt(s, this.step) || 0;
    const text = `${this.nameOf(s)}: ${words}; pays ${pays ? `up to ${said(pays)}` : 0}; ${percent(this.timeAt(s, this.step))} of the time; seen ${many(this.picture.visited[s])} times`;
    put(this.hint, text);
    if (byKey) this.tell(text);
  }

  // Painting and planning.

  brushed(s, step, mark) {
    this.choose(s, false);
    if (this.still) return;
    const same = (other) => (this.rewardAt(other, this.step) || 0) === (this.rewardAt(s, this.step) || 0);
    const states = this.view === "time" ? [s] : this.brush.fill ? this.scene.region(s, same) : this.scene.around(s, this.brush.size);
    this.paint(states, step === null ? null : [step, step], mark);
  }

  paint(states, steps, mark) {
    const { value, actions } = this.brush, [term] = this.reward.terms;
    const alone = this.reward.terms.length === 1 && term.kind === "paint" && !actions && !steps && !this.brush.steps;
    if (alone) for (const s of states) this.echo.set(s, value * term.weight); // shown at once; the plan follows
    this.reward.paint(states, value, actions, steps ?? this.brush.steps, mark);
  }

  changed() {
    if (!this.ready) return;
    this.began ??= performance.now();
    this.goBack.hidden = true;
    this.instead = null;
    this.hovered(null);
    this.terms.draw();
    this.trade.draw();
    this.redraw();
    this.plan();
    clearTimeout(this.remembering);
    this.remembering = setTimeout(() => this.remember(), 300);
  }

  async remember() {
    const { address } = this.model;
    if (address) address.set(await this.reward.link());
  }

  needsHeat() {
    return this.heat === "value" || this.heat === "width";
  }

  // Asks for the plan of what is painted. Two questions at most are under way: the server gives the older one up.
  async plan() {
    if (this.open >= 2) { this.again = true; return; }
    this.again = false;
    this.open += 1;
    const began = this.began ?? performance.now(), turn = this.turn + 1;
    const asked = structuredClone({ reward: this.reward.asked(), cautious: this.cautious });
    this.began = null;
    this.root.dataset.asked = turn;
    this.root.classList.add("busy");
    try {
      const found = await this.ask("plan", { ...asked, heat: this.needsHeat() ? this.heat : null });
      if (found && turn > (this.latest ?? 0)) {
        this.latest = turn;
        this.answered = asked; // what the picture is of: further questions are about the same
        this.terms?.say("");
        if (!this.again && this.open === 1) this.echo.clear();
        this.display(found);
        this.root.dispatchEvent(new CustomEvent("shown", { detail: { turn, milliseconds: performance.now() - began } }));
      }
    } catch (problem) {
      if (turn > (this.latest ?? 0)) { this.latest = turn; this.refused(problem.message); }
    }
    this.open -= 1;
    this.root.dataset.shown = this.latest ?? 0;
    if (this.again) this.plan();
    else if (!this.open) this.root.classList.remove("busy");
  }

  refused(text) {
    this.echo.clear();
    if (this.terms) this.terms.say(text);
    else put(this.status, text);
    this.redraw();
  }

  display(found) {
    this.plan_ = found;
    this.shown = this.read(found);
    put(this.worthBox, worth(found));
    clearTimeout(this.saying);
    this.saying = setTimeout(() => this.tell(`Value ${found.value_text}, certified from ${found.lower_text} to ${found.upper_text}.`), 600);
    this.scene.paintNow();
    this.redraw();
    clearTimeout(this.later);
    if (!this.instead) this.later = setTimeout(() => this.afterwards(), this.still ? 0 : 120);
  }

  // An answer of the server, as arrays with what is derived from them.
  read(found) {
    const { n_states: S, horizon: H } = this.picture, policy = unpacked(found.policy).values, roots = unpacked(found.reach).values;
    const { values: reward, shape: [rows] } = unpacked(found.reward), reach = new Float32Array(H * S), time = new Float32Array(S), likely = new Uint16Array(S);
    const best = new Float32Array(S), mostAt = new Float32Array(H).fill(1e-30), extreme = new Float32Array(S);
    for (let i = 0, h = 0; h < H; h++) for (let s = 0; s < S; s++, i++) {
      const p = (reach[i] = (roots[i] / 65535) ** 2 * found.most);
      time[s] += p;
      if (p > best[s]) { best[s] = p; likely[s] = h; }
      if (p > mostAt[h]) mostAt[h] = p;
    }
    let mostReward = 1e-12;
    for (let i = 0; i < rows * S; i++) {
      if (Math.abs(reward[i]) > mostReward) mostReward = Math.abs(reward[i]);
      if (Math.abs(reward[i]) > Math.abs(extreme[i % S])) extreme[i % S] = reward[i];
    }
    const heat = found.heat ? unpacked(found.heat).values : null, ends = [Infinity, -Infinity];
    if (heat) for (const v of heat) { if (v < ends[0]) ends[0] = v; if (v > ends[1]) ends[1] = v; }
    return { policy, reach, time, likely, mostAt, reward, rows, extreme, mostReward, heat, heatEnds: ends, mostTime: time.reduce((a, b) => Math.max(a, b), 1e-30), why: this.shown?.why, mostWhy: this.shown?.mostWhy };
  }

  // What may come a little later than the plan: what makes it uncertain, the chosen state, the comparison.
  async afterwards() {
    if (!this.still || this.model.kept.explain) {
      const found = await this.ask("explain", this.answered, this.why);
      if (found) {
        this.shown.why = unpacked(found.by_state).values;
        this.shown.mostWhy = this.shown.why.reduce((a, b) => Math.max(a, b), 1e-30);
        put(this.why, uncertainty(found, (s, step) => { this.choose(s); if (step !== null) this.toStep(step); }));
        if (this.heat === "why") this.redraw();
      }
    }
    if (this.still) return;
    if (this.other) await this.compare();
    if (this.chosen !== null) await this.detail();
  }

  async choose(s, ask = true) {
    this.chosen = s;
    this.hovered(s);
    this.scene.cursor = s;
    this.redraw();
    if (this.still) return;
    clearTimeout(this.asking);
    if (ask) await this.detail();
    else this.asking = setTimeout(() => this.detail(), 250);
  }

  async detail() {
    if (!this.answered) return;
    const found = await this.ask("state", { ...this.answered, state: this.chosen, step: this.step ?? 0 }, this.about);
    if (!found) return;
    this.found = { ...found, actions: this.picture.actions };
    put(this.about, stateCard(this.found, this.step, (s) => this.choose(s)));
    if (this.view === "graph") put(this.frames.other, graph(found, this));
  }

  showInstead(found, name) {
    this.instead = name;
    this.display(found);
    this.goBack.hidden = false;
    put(this.goBack, h("span", {}, `This is ${name}.`), h("button", { onclick: () => this.changed() }, "Back to the reward"));
  }

  // Two rewards side by side.

  async compareWith(terms, name = "") {
    this.other = terms && { terms: JSON.parse(JSON.stringify(terms)), name };
    this.otherShown = this.differ = null;
    put(this.comparing);
    this.comparing.hidden = !terms;
    this.root.classList.toggle("two", Boolean(terms));
    this.toView(["graph", "table"].includes(this.view) && terms ? this.views[0] : this.view);
    if (terms && this.answered) await this.compare();
  }

  async compare() {
    const found = await this.ask("compare", { ...this.answered, other: { terms: this.other.terms } }, this.comparing);
    if (!found) return;
    this.otherShown = this.read(found.other);
    const { values } = unpacked(found.differ), S = this.picture.n_states, any = new Uint8Array(S);
    for (let i = 0; i < values.length; i++) any[i % S] |= values[i];
    this.differ = { values, any };
    put(this.comparing, comparison(found, this.other.name));
    this.redraw();
  }

  // An episode in the explored model.
  async play() {
    if (this.playing) { this.stop(); return; }
    const found = await this.ask("play", { ...this.answered, seed: Math.floor(Math.random() * 2 ** 30) }, this.status);
    if (!found) return;
    if (["graph", "table"].includes(this.view)) this.toView(this.views[0]);
    const before = this.step, S = this.picture.n_states;
    let h = 0, paid = 0;
    put(this.playButton, "◼ Stop");
    this.stop = () => {
      clearInterval(this.playing);
      this.playing = this.way = null;
      put(this.playButton, "▶ Play an episode");
      put(this.status, `This episode earned ${said(paid)} in ${found.actions.length} steps.`);
      this.toStep(before ?? -1);
    };
    const tick = () => {
      if (h >= found.states.length) { this.stop(); return; }
      this.way = found.states.slice(0, h + 1).filter((s) => s < S).map((s, i) => [s, Math.min(i, this.picture.horizon - 1)]);
      if (h > 0) paid += found.paid[h - 1];
      put(this.status, `Step ${h}: ${found.names[h]}, earned ${said(paid)}`);
      this.toStep(Math.min(h, this.picture.horizon - 1));
      h += 1;
    };
    this.playing = setInterval(tick, matchMedia("(prefers-reduced-motion: reduce)").matches ? 700 : Math.max(90, 4000 / found.states.length));
    tick();
  }

  // Other atlases, and one that is being explored.

  async turnTo(name) {
    const hello = await this.model.ask("hello", { atlas: name });
    this.era += 1;
    clearTimeout(this.later);
    clearTimeout(this.asking);
    clearInterval(this.playing);
    this.playing = null;
    this.meet(hello);
    this.reward = new Reward(() => this.changed());
    Object.assign(this, { shown: null, answered: null, chosen: null, found: null, other: null, otherShown: null, differ: null, step: null, way: null, axes: [0, 1] });
    this.brush = { value: 1, size: 1, fill: false, actions: null, steps: null };
    this.echo.clear();
    this.build();
    this.plan();
  }

  async follow(found) {
    if (!found.atlas || !this.ready) return;
    if (this.hello.atlas === found.atlas && this.picture.env === found.env && this.picture.horizon === found.horizon) {
      const hello = await this.model.ask("hello", { atlas: found.atlas });
      this.picture.visited = unpacked(hello.picture.visits).values;
      this.picture.certificate = hello.picture.certificate;
      this.mostVisited = this.picture.visited.reduce((a, b) => Math.max(a, b), 1);
      this.summarise();
      this.plan();
    } else if (this.following !== `${found.env} ${found.horizon}`) {
      this.following = `${found.env} ${found.horizon}`;
      const panel = [...this.root.querySelectorAll("details.fold")].find((each) => each.querySelector("h2").textContent === "Explore");
      const hello = await this.model.ask("hello", { atlas: found.atlas });
      const same = hello.picture.n_states === this.picture.n_states && hello.picture.horizon === this.picture.horizon;
      const terms = this.reward.terms;
      await this.turnTo(found.atlas);
      if (same) this.reward.replace(terms);
      [...this.root.querySelectorAll("details.fold")].find((each) => each.querySelector("h2").textContent === "Explore").replaceWith(panel);
    }
  }

  viewNow() {
    return { view: this.view, step: this.step, heat: this.needsHeat() ? "time" : this.heat, axes: this.axes, theme: this.root.dataset.theme ?? null };
  }

  restore(view) {
    if (this.views.includes(view.view)) this.view = view.view;
    if (Array.isArray(view.axes) && this.picture.variables) this.axes = view.axes;
    this.step = Number.isInteger(view.step) ? view.step : null;
    if (view.heat in HEATS) this.heat = view.heat;
    if (view.theme) this.root.dataset.theme = view.theme;
  }
}

