// Views that are not a canvas: the table of all states, with search, and the neighbourhood of one state as a graph.
import { choice, h, many, percent, put, said, svg } from "./tools.js";

const ROWS = 25;
const plainly = (text) => text.toLowerCase().replace(/[\s=:]+/g, ""); // so that "wear 3" finds "spares=0, wear=3"

export class Table {
  constructor(app) {
    this.app = app;
    this.search = "";
    this.page = 0;
    this.order = "time";
    this.body = h("tbody", {});
    this.foot = h("div", { class: "row" });
    const heads = ["state", "reward", "does", "time there", "seen", "paint"].map((text) => h("th", { scope: "col" }, text));
    this.node = h("div", { class: "table" },
      h("div", { class: "row" },
        h("input", { type: "search", placeholder: "Search by name or number", "aria-label": "search states", oninput: (e) => { this.search = e.target.value; this.page = 0; this.draw(); } }),
        choice("order of the states", [["time", "most time first"], ["number", "by number"], ["reward", "largest reward first"], ["visits", "most seen first"]], this.order, (v) => { this.order = v; this.page = 0; this.draw(); })),
      h("div", { class: "scroll" }, h("table", {}, h("caption", { class: "unseen" }, "States, what the plan does there, and what is paid there"), h("thead", {}, h("tr", {}, heads)), this.body)), this.foot);
  }

  draw() {
    const { app } = this, S = app.picture.n_states, text = plainly(this.search);
    let found = [];
    for (let s = 0; s < S; s++) if (!text || String(s) === text || plainly(app.nameOf(s)).includes(text)) found.push(s);
    const by = { time: (s) => app.cells.timeAt(s, app.stage.step), reward: (s) => app.cells.rewardAt(s, app.stage.step) ?? 0, visits: (s) => app.picture.visited[s] }[this.order];
    if (by) found = found.map((s) => [by(s), s]).sort((a, b) => b[0] - a[0] || a[1] - b[1]).map(([, s]) => s);
    const pages = Math.max(1, Math.ceil(found.length / ROWS));
    this.page = Math.min(this.page, pages - 1);
    const shown = found.slice(this.page * ROWS, (this.page + 1) * ROWS);
    put(this.body, shown.map((s) => h("tr", { class: s === app.chosen ? "chosen" : "" },
      h("th", { scope: "row" }, h("button", { class: "link", onclick: () => app.choose(s) }, app.nameOf(s))),
      h("td", {}, said(app.cells.rewardAt(s, app.stage.step) ?? 0)), h("td", {}, app.cells.actionAt(s, app.stage.step).words),
      h("td", {}, percent(app.cells.timeAt(s, app.stage.step))), h("td", {}, many(app.picture.visited[s])),
      h("td", {}, app.still ? null : h("button", { "aria-label": `paint ${app.nameOf(s)} with ${said(app.brush.value)}`, onclick: () => app.paint([s], null, `row ${performance.now()}`) }, said(app.brush.value))))));
    put(this.foot,
      h("button", { disabled: this.page === 0, onclick: () => { this.page--; this.draw(); } }, "Before"),
      h("span", { class: "soft", role: "status" }, found.length ? `${many(this.page * ROWS + 1)} to ${many(Math.min(found.length, (this.page + 1) * ROWS))} of ${many(found.length)}` : "no such state"),
      h("button", { disabled: this.page >= pages - 1, onclick: () => { this.page++; this.draw(); } }, "After"),
      app.still || !text || !found.length ? null : h("button", { onclick: () => app.paint(found, null, `all ${performance.now()}`) }, `Paint all ${many(found.length)} with ${said(app.brush.value)}`));
  }
}

// The neighbourhood of a state: from where it is entered on the left, where the plan and other actions lead on the right.
export function graph(found, app) {
  const width = 760, s = found.state, play = app.cells.actionAt(s, app.stage.step).action;
  const gather = (edges, end) => {
    const nodes = new Map();
    for (const edge of edges) {
      const key = edge.ends ? `end ${edge[end]}` : edge[end];
      const node = nodes.get(key) ?? { state: edge[end], ends: edge.ends, actions: [], p: 0, played: false };
      node.actions.push(`${app.picture.signs[edge.action] || app.picture.actions[edge.action]} ${percent(edge.p)}`);
      node.played ||= edge.action === play;
      node.p = Math.max(node.p, edge.p);
      nodes.set(key, node);
    }
    return [...nodes.values()].sort((a, b) => b.played - a.played || b.p - a.p).slice(0, 14);
  };
  const out = gather(found.edges.filter((e) => e.from === s && (e.to !== s || e.ends)), "to"), into = gather(found.edges.filter((e) => e.from !== s), "from");
  const loops = found.edges.filter((e) => e.from === s && e.to === s && !e.ends);
  const height = Math.max(260, 44 * Math.max(out.length, into.length) + 40), middle = [width / 2, height / 2];
  const spread = (n, i) => (height / (n + 1)) * (i + 1);
  const bend = (x0, y0, x1, y1) => `M${x0},${y0} C${(x0 + x1) / 2},${y0} ${(x0 + x1) / 2},${y1} ${x1},${y1}`;
  const node = (each, x, y, anchor) => {
    const reward = each.ends ? 0 : (app.cells.rewardAt(each.state, app.stage.step) ?? 0);
    const go = () => !each.ends && app.choose(each.state);
    return svg("g", { class: `node ${reward > 0 ? "plus" : reward < 0 ? "minus" : ""}`, tabindex: each.ends ? null : "0", role: each.ends ? null : "button",
      onclick: go, onkeydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); go(); } } },
      svg("circle", { cx: x, cy: y, r: each.state === s && !each.ends ? 15 : 8 }),
      svg("text", { x: x + { start: 15, end: -15, middle: 0 }[anchor], y: y - (anchor === "middle" ? 24 : 1), "text-anchor": anchor }, shortened(found.names[each.state], 26)),
      each.actions ? svg("text", { class: "small", x: x + { start: 15, end: -15 }[anchor], y: y + 13, "text-anchor": anchor }, shortened(each.actions.slice(0, 4).join(", "), 34)) : null);
  };
  return h("div", { class: "graph" },
    h("p", { class: "soft" }, "Where this state is entered from, and where its actions were seen to lead. Thick: the plan's action. Choose a state to go there."),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": `the neighbourhood of ${found.names[s]}` },
      into.map((each, i) => svg("path", { class: "edge", d: bend(230, spread(into.length, i), middle[0] - 15, middle[1]) })),
      out.map((each, i) => svg("path", { class: each.played ? "edge played" : "edge", d: bend(middle[0] + 15, middle[1], width - 230, spread(out.length, i)) })),
      into.map((each, i) => node(each, 230, spread(into.length, i), "end")), out.map((each, i) => node(each, width - 230, spread(out.length, i), "start")),
      node({ state: s }, ...middle, "middle"),
      loops.length ? svg("text", { class: "small", x: middle[0], y: middle[1] + 32, "text-anchor": "middle" }, shortened(`stays: ${loops.map((e) => `${app.picture.signs[e.action] || app.picture.actions[e.action]} ${percent(e.p)}`).join(", ")}`, 44)) : null));
}

const shortened = (text, n) => (text.length > n ? `${text.slice(0, n - 1)}…` : text);
