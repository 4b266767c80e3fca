// The panel in which a reward is designed: its terms with weights, the brush, undo and redo, rewards that are kept by name.
import { paintTerm } from "./reward.js";
import { choice, h, labelled, put, said } from "./tools.js";

const VALUES = [1, 0.5, 0, -0.5, -1];
const KINDS = { paint: "painted", file: "from a file", own: "the environment's own" };

export class TermsPanel {
  constructor(app) {
    this.app = app;
    this.list = h("div", { class: "terms" });
    this.error = h("p", { class: "error", role: "alert", id: "reward-error" });
    this.brush = h("fieldset", { class: "brush" });
    this.kept = h("div", {});
    const add = h("select", { "aria-label": "add a term", onchange: () => { this.#add(add.value); add.value = ""; } },
      h("option", { value: "" }, "Add a term …"), h("option", { value: "expression" }, "an expression"), h("option", { value: "paint" }, "another painting"),
      h("option", { value: "file" }, "a file (CSV, JSON, NPY)"), app.picture.own ? h("option", { value: "own" }, "the environment's own reward") : null);
    this.undo = h("button", { onclick: () => app.reward.undo(), title: "Ctrl+Z" }, "Undo");
    this.redo = h("button", { onclick: () => app.reward.redo(), title: "Ctrl+Shift+Z" }, "Redo");
    this.file = h("input", { type: "file", accept: ".csv,.json,.npy", hidden: true, onchange: () => this.#upload() });
    const name = h("input", { type: "text", maxlength: 40, placeholder: "keep it as …", "aria-label": "name under which this reward is kept" });
    const keep = () => { if (name.value.trim()) { app.reward.keep(name.value.trim()); name.value = ""; this.draw(); } };
    name.addEventListener("keydown", (e) => { if (e.key === "Enter") keep(); });
    this.node = h("section", { class: "card", "aria-labelledby": "reward-title" },
      h("div", { class: "head" }, h("h2", { id: "reward-title" }, "Reward"), this.undo, this.redo), this.brush, this.list, this.error,
      h("div", { class: "row" }, add, h("button", { onclick: () => app.reward.replace([paintTerm()]) }, "Clear")), this.file,
      h("div", { class: "row" }, name, h("button", { onclick: keep }, "Keep")), this.kept);
    this.draw();
  }

  #add(kind) {
    const { reward } = this.app;
    const untouched = reward.terms.length === 1 && reward.terms[0].kind === "paint" && !reward.terms[0].strokes.length;
    const put = (term) => (untouched ? reward.replace([term]) : reward.add(term));
    if (kind === "paint") reward.add(paintTerm());
    else if (kind === "expression") put({ name: "formula", weight: 1, kind, text: this.app.example() });
    else if (kind === "own") put({ name: "own", weight: 1, kind, range: this.app.picture.own === "observed" ? [0, 1] : null });
    else if (kind === "file") this.file.click();
  }

  async #upload() {
    const [file] = this.file.files;
    if (!file) return;
    const bytes = new Uint8Array(await file.arrayBuffer()), parts = [];
    this.file.value = "";
    for (let i = 0; i < bytes.length; i += 32768) parts.push(String.fromCharCode(...bytes.subarray(i, i + 32768)));
    const found = await this.app.ask("upload", { name: file.name, content: btoa(parts.join("")) }, this.error);
    if (found) this.app.reward.add({ name: file.name.replace(/\.[^.]*$/, "").slice(0, 40) || "file", weight: 1, kind: "file", file: found.file, shown: file.name });
  }

  // What can hardly be meant, and what is wrong: beside the term that it is about.
  say(notes, problem = null) {
    put(this.error, problem?.term === null ? problem.message : null, notes.filter(({ term }) => term === null).map(({ text }) => text));
    this.list.querySelectorAll(".said").forEach((said, i) => {
      const mistaken = problem?.term === i;
      put(said, mistaken ? h("p", { class: "error", role: "alert" }, problem.message) : null, notes.filter(({ term }) => term === i).map(({ text }) => h("p", { class: "note" }, text)));
      said.parentElement.querySelector("textarea")?.setAttribute("aria-invalid", String(mistaken));
    });
  }

  // Draws what has changed. Controls stay as long as there are the same terms.
  draw() {
    const { app } = this, { reward } = app;
    this.undo.disabled = !reward.past.length;
    this.redo.disabled = !reward.future.length;
    this.#drawBrush();
    const shape = JSON.stringify(reward.terms.map((term) => [term.kind, term.file])) + reward.active;
    if (shape === this.shape) [...this.list.children].forEach((node, i) => node.update(reward.terms[i]));
    else put(this.list, reward.terms.map((term, i) => this.#term(term, i)));
    this.shape = shape;
    put(this.kept, reward.kept.length ? h("ul", { class: "kept", "aria-label": "rewards that were kept" }, reward.kept.map((each) => h("li", {},
      h("button", { class: "link", onclick: () => reward.replace(each.terms) }, each.name),
      h("button", { class: "plain", "aria-label": `compare with ${each.name}`, title: "Side by side", onclick: () => app.two.with(each.terms, each.name) }, "⇄")))) : null);
  }

  // One term. Its node has `update`, which writes what has changed into controls that stay: whoever uses one keeps the focus.
  #term(term, i) {
    const { app } = this, { reward } = app, active = i === reward.active, alone = reward.terms.length === 1;
    const number = h("input", { type: "number", step: "any" }), slider = h("input", { type: "range", min: -2, max: 2, step: 0.05 });
    const weigh = (from, to) => from.addEventListener("input", () => { if (Number.isFinite(from.valueAsNumber)) { to.value = from.value; reward.set(i, { weight: from.valueAsNumber }, `weight ${i}`); } });
    weigh(number, slider);
    weigh(slider, number);
    for (const each of [number, slider]) each.addEventListener("change", () => { reward.mark = null; });
    const name = h("input", { type: "text", class: "quiet", maxlength: 40, "aria-label": `name of term ${i + 1}`,
      onchange: () => { if (name.value.trim()) reward.set(i, { name: name.value.trim() }); else name.value = reward.terms[i].name; } });
    const remove = h("button", { class: "plain", onclick: () => reward.remove(i) }, "✕"), content = this.#content(term, i);
    const node = h("div", { class: active ? "term active" : "term" },
      h("div", { class: "row" }, alone ? null : number, alone ? null : h("span", { "aria-hidden": "true" }, "×"), name, term.kind === "expression" ? null : h("span", { class: "soft" }, KINDS[term.kind]),
        term.kind === "paint" && !active ? h("button", { onclick: () => { reward.active = i; reward.changed(); } }, "Paint here") : null,
        alone && term.kind === "paint" ? null : remove),
      alone ? null : slider, content.node, h("div", { class: "said", id: `said-of-${i}`, "aria-live": "polite" }));
    const write = (control, value) => { if (control !== document.activeElement) control.value = value; };
    node.update = (now) => {
      write(number, now.weight);
      write(slider, now.weight);
      write(name, now.name);
      content.update(now, write);
      for (const [control, words] of [[number, `weight of ${now.name}`], [slider, `weight of ${now.name}, slider`], [remove, `remove ${now.name}`]]) control.setAttribute("aria-label", words);
    };
    node.update(term);
    return node;
  }

  #content(term, i) {
    const { app } = this, { reward } = app;
    if (term.kind === "expression") {
      const text = h("textarea", { rows: 2, spellcheck: "false", autocapitalize: "off", "aria-describedby": `said-of-${i}`, oninput: () => reward.set(i, { text: text.value }, `text ${i}`), onchange: () => { reward.mark = null; } });
      return { node: text, update: (now, write) => { write(text, now.text); text.setAttribute("aria-label", `expression of ${now.name}`); } };
    }
    if (term.kind === "file") return { node: h("p", { class: "soft" }, term.shown), update: () => {} };
    if (term.kind !== "own" || app.picture.own !== "observed") return { node: null, update: () => {} };
    const ends = [0, 1].map((k) => h("input", { type: "number", step: "any", onchange: () => { const range = [...reward.terms[i].range]; range[k] = ends[k].valueAsNumber; reward.set(i, { range }); } }));
    const assumed = [["rewards", "deterministic", "the same transition always pays the same"], ["stationary_rewards", true, "it does not depend on the step"], ["paid_once", true, "at most one of an episode is not zero"]];
    const boxes = assumed.map(([key, value]) => h("input", { type: "checkbox", onchange: (e) => reward.set(i, { [key]: e.target.checked ? value : null }) }));
    return {
      node: h("div", {}, h("p", { class: "soft" }, `Observed: from ${said(app.picture.paid[0])} to ${said(app.picture.paid[1])}. Say what you know of it.`),
        h("div", { class: "row" }, labelled("it pays at least", ends[0]), labelled("and at most", ends[1])), boxes.map((box, k) => labelled(assumed[k][2], box, { class: "check" }))),
      update: (now, write) => { ends.forEach((end, k) => write(end, now.range[k])); boxes.forEach((box, k) => { box.checked = Boolean(now[assumed[k][0]]); }); },
    };
  }

  #drawBrush() {
    const { app } = this, { brush, picture } = app;
    if (this.brush.contains(document.activeElement) && this.drawn && !["BUTTON"].includes(document.activeElement.tagName)) return;
    const back = this.brush.contains(document.activeElement) ? document.activeElement.dataset.key : null;
    const value = h("input", { type: "number", step: "any", value: brush.value, "aria-label": "value of the brush", oninput: (e) => { if (Number.isFinite(e.target.valueAsNumber)) { brush.value = e.target.valueAsNumber; app.stage.redraw(); } } });
    const toggle = (key, text, pressed, onclick, title) => h("button", { "data-key": key, "aria-pressed": String(pressed), onclick: () => { onclick(); this.#drawBrush(); }, title }, text);
    const steps = h("div", { class: "row", hidden: brush.steps === null }, [0, 1].map((k) => labelled(k ? "to" : "from step", h("input", { type: "number", min: 0, max: picture.horizon - 1, value: brush.steps?.[k] ?? 0,
      onchange: (e) => { brush.steps[k] = Math.min(picture.horizon - 1, Math.max(0, Math.round(e.target.valueAsNumber) || 0)); brush.steps.sort((a, b) => a - b); } }))));
    put(this.brush, h("legend", {}, "Brush"),
      h("div", { class: "row values" }, VALUES.map((x) => h("button", { "data-key": `v${x}`, class: x > 0 ? "plus" : x < 0 ? "minus" : "", "aria-pressed": String(brush.value === x), "aria-label": x ? `brush value ${x}` : "erase", onclick: () => { brush.value = x; app.stage.redraw(); this.#drawBrush(); } }, x ? (x > 0 ? `+${x}` : String(x)) : "Erase")), value),
      h("div", { class: "row" }, choice("size of the brush", [[1, "one state"], [3, "3 wide"], [5, "5 wide"], [9, "9 wide"]], brush.size, (v) => { brush.size = Number(v); }),
        toggle("fill", "Fill", brush.fill, () => { brush.fill = !brush.fill; }, "Fills what is connected and pays the same")),
      h("details", { open: brush.actions !== null || brush.steps !== null }, h("summary", {}, "Some actions or steps only"), h("div", { class: "row" },
        choice("actions that are painted", [["", "all actions"], ...picture.actions.map((text, a) => [a, `${picture.signs[a] ? `${picture.signs[a]} ` : ""}${text}`])], brush.actions?.[0] ?? "", (v) => { brush.actions = v === "" ? null : [Number(v)]; }),
        choice("steps that are painted", [["", "all steps"], ["range", "some steps"]], brush.steps ? "range" : "", (v) => { brush.steps = v ? [app.stage.step ?? 0, app.stage.step ?? picture.horizon - 1] : null; document.activeElement.blur(); this.#drawBrush(); })), steps));
    this.drawn = true;
    if (back) this.brush.querySelector(`[data-key="${back}"]`)?.focus();
  }
}
