// What is drawn of a state at a step (null: at all of them): what the plan does there, how often it is there, what is paid.
import { unpacked } from "./tools.js";

export const HEATS = {
  time: "time the plan spends", value: "value from there on", width: "width of the interval from there on",
  why: "what makes the interval wide", data: "how often it was seen",
};

export class Cells {
  constructor(picture) {
    this.picture = picture;
    this.heat = "time";
    this.shown = null; // what was answered last, as `read` makes it
    this.why = null; // what makes the interval wide, by state
    this.differ = null; // where two plans do something else
    this.echo = new Map(); // what was painted since the last plan
    this.count();
  }

  count() {
    this.mostVisited = this.picture.visited.reduce((a, b) => Math.max(a, b), 1);
  }

  needsHeat() {
    return this.heat === "value" || this.heat === "width";
  }

  explain(values) {
    this.why = { values, most: values.reduce((a, b) => Math.max(a, b), 1e-30) };
  }

  actionAt(s, step) {
    const { n_states: S, n_actions: A, actions, signs, visited } = this.picture;
    if (!this.shown) return { words: "–", sign: "", action: -1 };
    const at = step ?? this.shown.likely[s], a = this.shown.policy[at * S + s];
    if (a === A) return { words: "any", sign: "·", action: -1 };
    return { words: `${signs[a] ? `${signs[a]} ` : ""}${actions[a]}`, sign: visited[s] ? signs[a] || actions[a] : "·", action: a };
  }

  timeAt(s, step) {
    if (!this.shown) return 0;
    return step === null ? this.shown.time[s] / this.picture.horizon : this.shown.reach[step * this.picture.n_states + s];
  }

  rewardAt(s, step) {
    if (this.echo.has(s)) return this.echo.get(s);
    if (!this.shown) return 0;
    const { reward, rows, extreme } = this.shown;
    return rows === 1 ? reward[s] : step === null ? extreme[s] : reward[step * this.picture.n_states + s];
  }

  heatAt(s, step) {
    const S = this.picture.n_states, f = this.shown;
    if (!f) return 0;
    if (this.heat === "time") return Math.sqrt(step === null ? f.time[s] / f.mostTime : f.reach[step * S + s] / f.mostAt[step]) * 0.85;
    if (this.heat === "data") return (Math.log1p(this.picture.visited[s]) / Math.log1p(this.mostVisited)) * 0.8;
    if (this.heat === "why") return this.why ? Math.sqrt(this.why.values[s] / this.why.most) * 0.9 : 0;
    if (!f.heat) return 0;
    const v = f.heat[(step ?? 0) * S + s];
    return ((v - f.heatEnds[0]) / (f.heatEnds[1] - f.heatEnds[0] || 1)) * 0.85;
  }

  cell(s, step) {
    const reward = this.rewardAt(s, step) || 0, { sign, action } = this.actionAt(s, step);
    const differs = this.differ && (step === null ? this.differ.any[s] : this.differ.values[step * this.picture.n_states + s]);
    return { known: this.picture.visited[s] > 0, heat: this.heatAt(s, step), reward, share: reward / (this.shown?.mostReward || 1), sign, action,
      strong: this.timeAt(s, step) > 1e-9, differs };
  }

  // The same states under another plan.
  under(shown) {
    return Object.create(this, { shown: { value: shown }, echo: { value: new Map() } });
  }

  // Where a plan and another one do something else: packed, by step and state.
  compare(packed) {
    const { values } = unpacked(packed), S = this.picture.n_states, any = new Uint8Array(S);
    for (let i = 0; i < values.length; i++) any[i % S] |= values[i];
    this.differ = { values, any };
  }
}

// An answer of the server, as arrays with what is derived from them.
export function read(found, picture) {
  const { n_states: S, horizon: H } = picture, policy = unpacked(found.policy).values, roots = unpacked(found.reach).values;
  const { values: reward, shape: [rows] } = unpacked(found.reward), reach = new Float32Array(H * S), time = new Float32Array(S), likely = new Uint16Array(S);
  const best = new Float32Array(S), mostAt = new Float32Array(H).fill(1e-30), extreme = new Float32Array(S);
  for (let i = 0, step = 0; step < H; step++) for (let s = 0; s < S; s++, i++) {
    const p = (reach[i] = (roots[i] / 65535) ** 2 * found.most);
    time[s] += p;
    if (p > best[s]) { best[s] = p; likely[s] = step; }
    if (p > mostAt[step]) mostAt[step] = p;
  }
  let mostReward = 1e-12;
  for (let i = 0; i < rows * S; i++) {
    if (Math.abs(reward[i]) > mostReward) mostReward = Math.abs(reward[i]);
    if (Math.abs(reward[i]) > Math.abs(extreme[i % S])) extreme[i % S] = reward[i];
  }
  const heat = found.heat ? unpacked(found.heat).values : null, ends = [Infinity, -Infinity];
  if (heat) for (const v of heat) { if (v < ends[0]) ends[0] = v; if (v > ends[1]) ends[1] = v; }
  return { policy, reach, time, likely, mostAt, reward, rows, extreme, mostReward, heat, heatEnds: ends, mostTime: time.reduce((a, b) => Math.max(a, b), 1e-30) };
}
