// Who answers the page: the server, the kernel of a notebook, or what is kept in an exported page.
import { h, put } from "./tools.js";

// A picture without a server: what was asked is in the page.
export function still(kept) {
  const shown = (heat) => (heat === "value" || heat === "width" ? null : kept.plan);
  return { still: true, kept, ask: async (name, asked) => (name === "hello" ? kept.hello : name === "explain" ? kept.explain : shown(asked.heat) ?? kept.plan) };
}

// What went wrong, as a sentence, and in which term of the reward, if in one.
export function wrong({ error, term }) {
  return Object.assign(new Error(error), { term: term ?? null });
}

// Questions as messages of a notebook widget.
export function overMessages(model) {
  const waiting = new Map();
  let number = 0;
  model.on("msg:custom", ({ number: n, answer }) => {
    const done = waiting.get(n);
    waiting.delete(n);
    if (!done) return;
    if (answer.error) done.fail(wrong(answer));
    else done.well(answer);
  });
  return { ask: (name, asked) => new Promise((well, fail) => { waiting.set((number += 1), { well, fail }); model.send({ name, asked, number }); }) };
}

const LONG = ["goal", "limits", "trade"]; // may take seconds: that is said meanwhile

// The questions of one tab, numbered: the server gives up older ones for newer ones.
export class Questions {
  constructor(model) {
    this.model = model;
    this.tab = Math.random().toString(36).slice(2);
    this.turn = this.era = 0;
    this.atlas = null;
  }

  // What comes from now on is about another atlas: answers that are under way are not waited for.
  about(atlas) {
    this.atlas = atlas;
    this.era += 1;
  }

  // The answer; null if it is not wanted any more. With `out`, an error becomes a sentence there, and so does that it was given up.
  async ask(name, asked, out = null) {
    const { era } = this, say = (text) => out && LONG.includes(name) && put(out, h("p", { class: "soft" }, text));
    say("This is being computed …");
    try {
      const answer = await this.model.ask(name, { atlas: this.atlas, tab: this.tab, turn: (this.turn += 1), ...asked });
      if (era !== this.era) return null;
      if (answer.superseded) { say("This was given up, since the reward was changed meanwhile."); return null; }
      if (out) put(out);
      return answer;
    } catch (problem) {
      if (era !== this.era) return null;
      if (!out) throw problem;
      put(out, h("p", { class: "error", role: "alert" }, problem.message));
      return null;
    }
  }
}
