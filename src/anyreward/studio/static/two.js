// Two rewards side by side: one that was set aside, and the one that is being designed.
import { read } from "./cells.js";
import { comparison } from "./panels.js";
import { h, put } from "./tools.js";

export class Two {
  constructor(app) {
    this.app = app;
    this.other = null; // terms and name of the one that was set aside
    this.cells = null; // what its plan does
    this.card = h("section", { class: "card", hidden: true, "aria-label": "both rewards" });
    this.panel = [
      h("div", { class: "row" }, h("button", { onclick: () => this.with(app.reward.terms, "the one set aside") }, "Set this reward aside"), h("button", { onclick: () => this.with(null) }, "End it")),
      h("p", { class: "soft" }, "Set a reward aside, design another one, and see both plans with what each is worth under the other's reward."),
    ];
  }

  async with(terms, name = "") {
    const { app } = this;
    this.other = terms && { terms: JSON.parse(JSON.stringify(terms)), name };
    this.cells = app.cells.differ = null;
    put(this.card);
    this.card.hidden = !terms;
    app.root.classList.toggle("two", Boolean(terms));
    if (terms) app.stage.toCanvas();
    else app.stage.toView(app.stage.view);
    await this.compare();
  }

  async compare() {
    const { app } = this;
    if (!this.other || !app.answered) return;
    const found = await app.ask("compare", { ...app.answered, other: { terms: this.other.terms } }, this.card);
    if (!found) return;
    this.cells = app.cells.under(read(found.other, app.picture));
    app.cells.compare(found.differ);
    put(this.card, comparison(found, this.other.name));
    app.stage.redraw();
  }
}
