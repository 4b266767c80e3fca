// The reward studio: `render({model, el})` shows it in an element. What it asks goes through `model.ask(question, asked)`.
import { Cells, read } from "./cells.js";
import { explorePanel, filesPanel, goalPanel, limitsPanel, stateCard, tradePanel, uncertainty, worth } from "./panels.js";
import { Questions, overMessages } from "./questions.js";
import { Reward } from "./reward.js";
import { Stage } from "./stage.js";
import { TermsPanel } from "./terms.js";
import { choice, h, labelled, many, put, unpacked } from "./tools.js";
import { Two } from "./two.js";

export function render({ model, el }) {
  const app = new App(model.ask ? model : overMessages(model), el);
  app.begin();
  return () => app.end();
}

class App {
  constructor(model, el) {
    this.model = model;
    this.still = Boolean(model.still);
    this.questions = new Questions(model);
    this.root = h("div", { class: "ars" }, h("p", { class: "soft waiting", role: "status" }, "The studio is being opened …"));
    el.append(this.root);
    this.root.app = this; // for those who want to look behind it
    this.open = 0; // questions for plans that are under way
    this.cautious = false;
    this.fresh();
  }

  // What belongs to one atlas.
  fresh() {
    this.reward = new Reward(() => this.changed());
    this.brush = { value: 1, size: 1, fill: false, actions: null, steps: null };
    this.chosen = this.found = this.answered = this.instead = null;
  }

  ask(name, asked, out = null) {
    return this.questions.ask(name, asked, out);
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
      await Reward.fromLink(linked).then((terms) => { this.reward.terms = terms; }, () => { this.damaged = true; });
    } else if (this.still) {
      this.reward.terms = this.model.kept.reward.terms;
      this.cautious = this.model.kept.cautious;
    }
    this.build();
    if (this.damaged) put(this.status, "The reward of this link is damaged: it begins with an empty one.");
    this.ready = true;
    this.plan();
  }

  end() {
    this.stage?.end();
    this.root.remove();
  }

  meet(hello) {
    this.hello = hello;
    const p = (this.picture = hello.picture);
    this.questions.about(hello.atlas);
    p.visited = unpacked(p.visits).values;
    p.placed = unpacked(p.places);
    this.cells = new Cells(p);
  }

  nameOf(s) {
    return this.picture.states?.[s] ?? `state ${s}`;
  }

  // An expression to begin with.
  example() {
    const [name] = this.picture.names;
    return name ? `${name} == 0` : `state == ${this.picture.n_states - 1}`;
  }

  // What the page consists of.

  build() {
    const p = this.picture, { atlas, atlases } = this.hello;
    this.status = h("p", { class: "status", role: "status" });
    this.live = h("div", { class: "unseen", "aria-live": "polite" });
    this.worthBox = h("div", {});
    this.why = h("div", {}, h("p", { class: "soft" }, "…"));
    this.about = h("div", {}, h("p", { class: "soft" }, "Choose a state to see what the plan does there: paint it, or press its name in the table."));
    this.goBack = h("div", { class: "instead", hidden: true });
    this.head = h("p", { class: "about" });
    this.two = new Two(this);
    this.stage = new Stage(this);
    this.terms = this.still ? null : new TermsPanel(this);
    this.trade = this.still ? null : tradePanel(this);
    const careful = h("input", { type: "checkbox", checked: this.cautious, disabled: this.still, onchange: () => { this.cautious = careful.checked; this.changed(); } });
    const theme = h("button", { class: "theme", "aria-label": "light or dark", title: "Light or dark", onclick: () => this.theme() }, "◐");
    const pick = atlases.length > 1 ? choice("atlas", atlases.map((name) => [name, name]), atlas, (name) => this.turnTo(name)) : null;
    const panel = (title, nodes) => h("details", { class: "card fold", "data-panel": title }, h("summary", {}, h("h2", {}, title)), h("div", {}, nodes));
    this.summarise();
    put(this.root,
      h("header", {}, h("div", { class: "title" }, h("h1", {}, "Reward studio"), pick, h("span", { class: "env" }, atlas === "atlas" || pick ? p.env : atlas)), this.head, theme),
      h("main", {},
        this.still ? null : h("div", { class: "left" }, this.terms.node),
        h("div", { class: "middle" }, this.stage.node, this.goBack, this.still ? null : this.two.card),
        h("div", { class: "right" },
          h("section", { class: "card first", "aria-labelledby": "worth-title" },
            h("div", { class: "head" }, h("h2", { id: "worth-title" }, "What the plan is worth"), labelled("cautious", careful, { class: "check", title: "The plan whose guaranteed value is largest" })), this.worthBox, this.status),
          h("section", { class: "card", "aria-labelledby": "why-title" }, h("h2", { id: "why-title" }, "What makes the interval wide"), this.why),
          this.still ? null : [
            h("section", { class: "card", "aria-labelledby": "state-title" }, h("h2", { id: "state-title" }, "This state"), this.about),
            panel("Two rewards side by side", this.two.panel), panel("Goals", goalPanel(this)), panel("Limits", limitsPanel(this)), panel("Trade-off", this.trade.nodes),
            panel("Explore", explorePanel(this)), panel("Take it with you", filesPanel(this))])),
      this.live);
    this.root.classList.remove("two");
    this.root.onkeydown = (e) => this.key(e);
    this.stage.show();
    matchMedia("(prefers-color-scheme: dark)").onchange = () => this.stage.repaint();
  }

  summarise() {
    const { problem, certificate: c } = this.picture;
    put(this.head, h("span", {}, problem), h("span", { title: c.text }, c.says_nothing ? "nothing is certified for every reward yet" : `ε = ${c.epsilon_text} for every reward, with probability ${c.sure}`), h("span", {}, `${many(c.episodes)} episodes`));
  }

  // Says something to those who listen to the page.
  tell(text) {
    put(this.live, text);
  }

  theme() {
    this.root.dataset.theme = getComputedStyle(this.root).colorScheme.includes("dark") ? "light" : "dark";
    this.stage.repaint();
  }

  key(e) {
    if (e.target.matches("input[type=text], input[type=number], input[type=search], textarea") || !(e.ctrlKey || e.metaKey)) return;
    const undo = e.key.toLowerCase() === "z" && !e.shiftKey, redo = e.key.toLowerCase() === "y" || (e.key.toLowerCase() === "z" && e.shiftKey);
    if (undo || redo) { e.preventDefault(); undo ? this.reward.undo() : this.reward.redo(); }
  }

  // Painting and planning.

  brushed(s, step, mark) {
    this.choose(s, false);
    if (this.still) return;
    const { cells, stage, brush } = this;
    const same = (other) => (cells.rewardAt(other, stage.step) || 0) === (cells.rewardAt(s, stage.step) || 0);
    const states = stage.view === "time" ? [s] : brush.fill ? stage.scene.region(s, same) : stage.scene.around(s, brush.size);
    this.paint(states, step === null ? null : [step, step], mark);
  }

  paint(states, steps, mark) {
    const { value, actions } = this.brush, [term] = this.reward.terms;
    const alone = this.reward.terms.length === 1 && term.kind === "paint" && !actions && !steps && !this.brush.steps;
    if (alone) for (const s of states) this.cells.echo.set(s, value * term.weight); // shown at once; the plan follows
    this.reward.paint(states, value, actions, steps ?? this.brush.steps, mark);
  }

  changed() {
    if (!this.ready) return;
    this.began ??= performance.now();
    this.stroke = true;
    this.goBack.hidden = true;
    this.instead = null;
    this.stage.hovered(null);
    this.terms.draw();
    this.trade.draw();
    this.stage.redraw();
    this.plan();
    clearTimeout(this.remembering);
    this.remembering = setTimeout(() => this.remember(), 300);
  }

  async remember() {
    const { address } = this.model;
    if (address) address.set(await this.reward.link());
  }

  // Asks for the plan of what is painted. Two questions at most are under way: the server gives the older one up.
  async plan() {
    if (this.open >= 2) { this.again = true; return; }
    this.again = false;
    this.open += 1;
    const began = this.began ?? performance.now(), turn = this.questions.turn + 1, { stroke } = this;
    const asked = structuredClone({ reward: this.reward.asked(), cautious: this.cautious });
    this.began = this.stroke = null;
    this.root.dataset.asked = turn;
    this.root.classList.add("busy");
    try {
      const found = await this.ask("plan", { ...asked, stroke: Boolean(stroke), heat: this.cells.needsHeat() ? this.cells.heat : null });
      if (found && turn > (this.latest ?? 0)) {
        this.latest = turn;
        this.answered = asked; // what the picture is of: further questions are about the same
        this.terms?.say(found.notes);
        if (!this.again && this.open === 1) this.cells.echo.clear();
        this.display(found);
        this.root.dispatchEvent(new CustomEvent("shown", { detail: { turn, milliseconds: performance.now() - began } }));
      }
    } catch (problem) {
      if (turn > (this.latest ?? 0)) { this.latest = turn; this.refused(problem); }
    }
    this.open -= 1;
    this.root.dataset.shown = this.latest ?? 0;
    if (this.again) this.plan();
    else if (!this.open) this.root.classList.remove("busy");
  }

  refused(problem) {
    this.cells.echo.clear();
    if (this.terms) this.terms.say([], problem);
    else put(this.status, problem.message);
    this.stage.redraw();
  }

  display(found) {
    this.cells.shown = read(found, this.picture);
    this.observed = found.observed;
    put(this.worthBox, worth(found));
    clearTimeout(this.saying);
    this.saying = setTimeout(() => this.tell(`Value ${found.value_text}, certified from ${found.lower_text} to ${found.upper_text}.`), 600);
    this.stage.scene.paintNow();
    this.stage.redraw();
    clearTimeout(this.later);
    if (!this.instead) this.later = setTimeout(() => this.afterwards(), this.still ? 0 : 120);
  }

  // What may come a little later than the plan: what makes it uncertain, the chosen state, the comparison.
  async afterwards() {
    if (this.observed) put(this.why, h("p", { class: "soft" }, "This is told for rewards that are given, not for what was only observed."));
    else if (!this.still || this.model.kept.explain) {
      const found = await this.ask("explain", this.answered, this.why);
      if (found) {
        this.cells.explain(unpacked(found.by_state).values);
        put(this.why, uncertainty(found, (s, step) => { this.choose(s); if (step !== null) this.stage.toStep(step); }));
        if (this.cells.heat === "why") this.stage.redraw();
      }
    }
    if (this.still) return;
    await this.two.compare();
    if (this.chosen !== null) await this.detail();
  }

  async choose(s, ask = true) {
    this.chosen = s;
    this.stage.hovered(s);
    this.stage.scene.cursor = s;
    this.stage.redraw();
    if (this.still) return;
    clearTimeout(this.asking);
    if (ask) await this.detail();
    else this.asking = setTimeout(() => this.detail(), 250);
  }

  async detail() {
    if (!this.answered) return;
    const found = await this.ask("state", { ...this.answered, state: this.chosen, step: this.stage.step ?? 0 }, this.about);
    if (!found) return;
    this.found = { ...found, actions: this.picture.actions };
    this.stateShown();
    this.stage.neighbours(found);
  }

  stateShown() {
    if (this.found) put(this.about, stateCard(this.found, this.stage.step, (s) => this.choose(s)));
  }

  showInstead(found, name) {
    this.instead = name;
    this.display(found);
    this.goBack.hidden = false;
    put(this.goBack, h("span", {}, `This is ${name}.`), h("button", { onclick: () => this.changed() }, "Back to the reward"));
  }

  // Other atlases, and one that is being explored.

  async turnTo(name) {
    const hello = await this.model.ask("hello", { atlas: name });
    clearTimeout(this.later);
    clearTimeout(this.asking);
    this.stage.end();
    this.meet(hello);
    this.fresh();
    this.build();
    this.plan();
  }

  async follow(found) {
    if (!found.atlas || !this.ready) return;
    if (this.hello.atlas === found.atlas && this.picture.env === found.env && this.picture.horizon === found.horizon) {
      const { picture } = await this.model.ask("hello", { atlas: found.atlas });
      this.picture.visited = unpacked(picture.visits).values;
      this.picture.certificate = picture.certificate;
      this.cells.count();
      this.summarise();
      this.plan();
    } else if (this.following !== `${found.env} ${found.horizon}`) {
      this.following = `${found.env} ${found.horizon}`;
      const panel = () => this.root.querySelector("[data-panel=Explore]"), kept = panel(), { terms } = this.reward, before = this.picture;
      await this.turnTo(found.atlas);
      if (before.n_states === this.picture.n_states && before.horizon === this.picture.horizon) this.reward.replace(terms);
      panel().replaceWith(kept);
    }
  }
}
