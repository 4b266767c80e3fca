// The reward that is being designed: terms with weights, strokes of paint, undo and redo, and the text of a link that carries it.
import { ranges, within } from "./tools.js";

const DEPTH = 300; // steps that can be undone

export function paintTerm(name = "paint") {
  return { name, weight: 1, kind: "paint", strokes: [] };
}

export class Reward {
  constructor(onchange) {
    this.terms = [paintTerm()];
    this.active = 0;
    this.onchange = onchange;
    this.past = [];
    this.future = [];
    this.kept = []; // named rewards
  }

  asked() {
    return { terms: this.terms };
  }

  get term() {
    return this.terms[this.active];
  }

  // Remembers what is there, before it is changed. Changes with the same mark, such as those of one drag, are undone at once.
  before(mark = null) {
    if (mark !== null && mark === this.mark) return;
    this.mark = mark;
    this.past.push(JSON.stringify([this.terms, this.active]));
    if (this.past.length > DEPTH) this.past.shift();
    this.future = [];
  }

  changed() {
    this.active = Math.min(this.active, this.terms.length - 1);
    this.onchange();
  }

  undo() {
    return this.#swap(this.past, this.future);
  }

  redo() {
    return this.#swap(this.future, this.past);
  }

  #swap(from, to) {
    if (!from.length) return false;
    to.push(JSON.stringify([this.terms, this.active]));
    [this.terms, this.active] = JSON.parse(from.pop());
    this.mark = null;
    this.changed();
    return true;
  }

  replace(terms) {
    this.before();
    this.terms = JSON.parse(JSON.stringify(terms));
    this.active = 0;
    this.changed();
  }

  keep(name) {
    this.kept.unshift({ name, terms: JSON.parse(JSON.stringify(this.terms)) });
  }

  add(term) {
    this.before();
    const names = new Set(this.terms.map((each) => each.name));
    const base = term.name;
    for (let i = 2; names.has(term.name); i++) term.name = `${base} ${i}`;
    this.terms.push(term);
    this.active = this.terms.length - 1;
    this.changed();
  }

  remove(i) {
    this.before();
    this.terms.splice(i, 1);
    if (!this.terms.length) this.terms.push(paintTerm());
    this.changed();
  }

  set(i, values, mark) {
    this.before(mark);
    Object.assign(this.terms[i], values);
    this.changed();
  }

  // Paints states with a value, for some actions and steps or all (null). What is covered by it is forgotten.
  paint(states, value, actions, steps, mark) {
    if (this.term.kind !== "paint") {
      const i = this.terms.findIndex((each) => each.kind === "paint");
      if (i < 0) this.add(paintTerm());
      else this.active = i;
    }
    this.before(mark);
    const gone = new Set(states), left = [];
    let below = false;
    for (const stroke of this.term.strokes) {
      const rest = covers(actions, steps, stroke) ? cut(stroke.states, gone) : stroke.states;
      if (rest.length) left.push({ ...stroke, states: rest });
      below ||= rest.length > 0 && touches(rest, gone);
    }
    if (value !== 0 || below) {
      const top = left[left.length - 1];
      const same = top && top.value === value && alike(top.actions, actions) && alike(top.steps, steps);
      if (same) top.states = ranges([...within(top.states), ...gone]);
      else left.push({ states: ranges(gone), value, actions, steps });
    }
    this.term.strokes = left;
    this.changed();
  }

  async link() {
    const text = JSON.stringify(this.terms);
    if (text === JSON.stringify([paintTerm()])) return "";
    const bytes = await flowed(new TextEncoder().encode(text), new CompressionStream("deflate-raw"));
    return btoa(Array.from(bytes, (b) => String.fromCharCode(b)).join("")).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  }

  static async fromLink(text) {
    const plain = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
    const bytes = await flowed(Uint8Array.from(plain, (c) => c.charCodeAt(0)), new DecompressionStream("deflate-raw"));
    const terms = JSON.parse(new TextDecoder().decode(bytes));
    const kinds = ["paint", "expression", "own", "file"];
    const right = (each) => each && kinds.includes(each.kind) && (each.kind !== "paint" || Array.isArray(each.strokes));
    if (!Array.isArray(terms) || !terms.length || !terms.every(right)) throw new Error("The reward of this link is damaged.");
    return terms;
  }
}

async function flowed(bytes, stream) {
  const answer = new Response(new Blob([bytes]).stream().pipeThrough(stream));
  return new Uint8Array(await answer.arrayBuffer());
}

const alike = (one, other) => JSON.stringify(one) === JSON.stringify(other);

// Whether a stroke lies within some actions and steps.
function covers(actions, steps, stroke) {
  const byAction = actions === null || (stroke.actions !== null && stroke.actions.every((a) => actions.includes(a)));
  return byAction && (steps === null || (stroke.steps !== null && steps[0] <= stroke.steps[0] && stroke.steps[1] <= steps[1]));
}

function cut(states, gone) {
  return touches(states, gone) ? ranges([...within(states)].filter((s) => !gone.has(s))) : states;
}

function touches(states, others) {
  for (const s of others) if (states.some(([a, b]) => a <= s && s <= b)) return true;
  return false;
}
