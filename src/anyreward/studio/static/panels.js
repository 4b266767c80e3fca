// The panels beside the picture: worth, uncertainty, one state, comparison, goals, limits, trade-off, exploring, files.
import { bytesOf, chart, choice, clamp, h, labelled, many, percent, put, said, save, svg } from "./tools.js";

// A certified interval as a bar within all that is possible, with a mark at the value; `zoomed` to what matters.
export function intervalBar(plan, { label = "certified interval" } = {}) {
  const width = plan.highest - plan.lowest;
  const at = (x) => (width > 0 ? clamp(((x - plan.lowest) / width) * 100, 0, 100) : 0);
  const band = h("i", { style: { left: `${at(plan.lower)}%`, width: `${width > 0 ? Math.max(at(plan.upper) - at(plan.lower), 0.4) : 100}%` } });
  const words = `${label}: from ${plan.lower_text} to ${plan.upper_text}, where ${said(plan.lowest)} to ${said(plan.highest)} are possible`;
  return h("div", {},
    h("div", { class: "bar", role: "img", "aria-label": words }, band, h("b", { style: { left: `${at(plan.value)}%` } })),
    h("div", { class: "ends", "aria-hidden": "true" }, h("span", {}, said(plan.lowest)), h("span", {}, said(plan.highest))));
}

export function worth(plan) {
  return [
    h("div", { class: "numbers" },
      h("div", { class: "big" }, plan.value_text),
      h("div", {}, h("div", { class: "certain" }, `${plan.lower_text} to ${plan.upper_text}`), h("div", { class: "soft" }, "certified"))),
    intervalBar(plan),
    h("p", { class: "sentence" }, plan.sentence),
    plan.terms?.length ? shares(plan) : null,
    plan.assumptions.length ? h("details", {}, h("summary", {}, "What is assumed"), h("ul", {}, plan.assumptions.map((text) => h("li", {}, text)))) : null,
  ];
}

// What each term contributes to the value.
function shares(plan) {
  const most = Math.max(...plan.terms.map((term) => Math.abs(term.value)), 1e-12);
  return h("table", { class: "shares" }, h("caption", {}, "Each term's share of the value"), h("tbody", {},
    plan.terms.map((term) => h("tr", {}, h("th", { scope: "row" }, term.name),
      h("td", { class: "part" }, h("i", { class: term.value < 0 ? "minus" : "plus", style: { width: `${(50 * Math.abs(term.value)) / most}%` } })),
      h("td", { class: "right", title: `certified: ${term.lower_text} to ${term.upper_text}` }, said(term.value))))));
}

export function uncertainty(found, choose) {
  if (!found.charges.length) return [h("p", { class: "soft" }, "Nothing: the interval is as narrow as it can be.")];
  const halve = found.episodes_to_halve;
  return [
    h("p", {}, halve === null ? "Half the width is not in sight." : ["About ", h("b", {}, many(halve)), ` more episodes, explored for this reward, would halve the width (a forecast).`]),
    h("ol", { class: "charges" }, found.charges.slice(0, 6).map((one) => h("li", {},
      h("button", { class: "plain", disabled: one.state === null, onclick: () => choose(one.state, one.step) },
        h("i", { style: { width: `${Math.max(1, 100 * one.share)}%` } }), h("span", {}, one.what),
        h("span", { class: "soft" }, `${percent(one.share)} · seen ${many(one.visits)}×`))))),
    found.charges.length + found.others > 6 ? h("p", { class: "soft" }, `and ${many(found.charges.length - 6 + found.others)} other places`) : null,
  ];
}

export function stateCard(found, step, choose) {
  const shown = step === null ? found.steps[0] : found.steps[step];
  const leads = found.edges.filter((edge) => edge.from === found.state);
  return [
    h("p", { class: "name" }, found.name === String(found.state) ? `state ${found.state}` : found.name,
      h("span", { class: "soft" }, found.name === String(found.state) ? ` · step ${step ?? 0}` : ` · state ${found.state}, step ${step ?? 0}`)),
    h("dl", {},
      h("dt", {}, "does"), h("dd", {}, shown.action, h("span", { class: "soft" }, `, seen ${many(shown.seen)}×`)),
      h("dt", {}, "worth"), h("dd", {}, `${said(shown.value)}, from ${said(shown.lower)} to ${said(shown.upper)} from here on`),
      h("dt", {}, "is here"), h("dd", {}, `with probability ${percent(shown.probability)} at this step`)),
    leads.length ? h("details", {}, h("summary", {}, "Where its actions were seen to lead"), h("ul", { class: "edges" },
      leads.slice(0, 24).map((edge) => h("li", {}, `${found.actions[edge.action]}: `,
        edge.ends ? found.names[edge.to] : h("button", { class: "link", onclick: () => choose(edge.to) }, found.names[edge.to]), ` ${percent(edge.p)}`)))) : null,
  ];
}

export function comparison(found, name) {
  const [one, two] = found.plans, [onUnder, otherUnder] = found.crossed;
  const row = (text, a, b) => h("tr", {}, h("th", { scope: "row" }, text), h("td", {}, a), h("td", {}, b));
  const of = (x) => `${said(x.value)} (${x.lower_text} to ${x.upper_text})`;
  return [
    h("table", { class: "grid" }, h("thead", {}, h("tr", {}, h("th", {}), h("th", { scope: "col" }, "this reward"), h("th", { scope: "col" }, name))), h("tbody", {},
      row("the plan for this reward", of(one), of(onUnder)), row(`the plan for ${name}`, of(otherUnder), of(two)))),
    h("p", {}, found.time > 0 ? `The plans do something else at ${percent(found.time)} of the time; where one of them gets at least once in a thousand episodes, there is a dashed frame.` : "Both plans do the same wherever they get."),
  ];
}

// What can hardly be meant.
const told = (notes) => notes.map((text) => h("p", { class: "note" }, text));

export function limitsPanel(app) {
  const rows = h("div", {}), out = h("div", { "aria-live": "polite" });
  const limits = [{ text: "", sign: "<=", limit: 1 }];
  const draw = () => put(rows, limits.map((each, i) => h("div", { class: "row" },
    h("input", { type: "text", "aria-label": `cost ${i + 1}`, placeholder: "action == 1", value: each.text, oninput: (e) => { each.text = e.target.value; } }),
    choice(`sign of limit ${i + 1}`, [["<=", "≤"], [">=", "≥"]], each.sign, (value) => { each.sign = value; }),
    h("input", { type: "number", step: "any", "aria-label": `limit ${i + 1}`, value: each.limit, oninput: (e) => { each.limit = e.target.valueAsNumber; } }))));
  const go = async (which = 0) => {
    const found = await app.ask("limits", { reward: app.reward.asked(), limits: limits.filter((each) => each.text.trim()), which }, out);
    if (!found) return;
    app.showInstead(found, "the plan within limits");
    put(out, told(found.notes), found.costs.map((cost) => h("p", {}, `${cost.name}: certainly ${cost.lower_text} to ${cost.upper_text} on average; the limit is${cost.limit}.`)),
      found.weights.length > 1 ? h("p", {}, "A mixture, drawn once an episode: ", found.weights.map((w, i) => h("button", { "aria-pressed": String(i === found.which), onclick: () => go(i) }, percent(w)))) : null);
  };
  draw();
  return [h("p", { class: "soft" }, "What may happen only so often on average. The plan is then certain to keep it."), rows,
    h("div", { class: "row" }, h("button", { onclick: () => { limits.push({ text: "", sign: "<=", limit: 1 }); draw(); } }, "Another limit"),
      h("button", { class: "main", onclick: () => go() }, "Plan within limits")), out];
}

export function goalPanel(app) {
  const asked = { goal: "", avoid: "" }, out = h("div", { "aria-live": "polite" });
  const input = (name, text, example) => labelled(text, h("input", { type: "text", placeholder: example, oninput: (e) => { asked[name] = e.target.value; } }));
  const painted = (name) => {
    const states = [];
    for (let s = 0; s < app.picture.n_states; s++) if ((app.cells.rewardAt(s, app.stage.step) ?? 0) * (name === "goal" ? 1 : -1) > 0) states.push([s, s]);
    return { states };
  };
  const go = async (of) => {
    const body = of ? { goal: painted("goal"), avoid: painted("avoid") } : { goal: { text: asked.goal }, avoid: { text: asked.avoid } };
    const found = await app.ask("goal", { ...body, cautious: app.cautious }, out);
    if (found) { app.showInstead(found, "the plan for a goal"); put(out, told(found.notes), h("p", {}, found.sentence)); }
  };
  return [input("goal", "Arrive where", "state == 3"), input("avoid", "before ever being where", "nothing to avoid"),
    h("div", { class: "row" }, h("button", { class: "main", onclick: () => go(false) }, "Plan for it"),
      h("button", { onclick: () => go(true), title: "Arrive where the reward is positive, avoid where it is negative" }, "From what is painted")), out];
}

export function tradePanel(app) {
  const out = h("div", { "aria-live": "polite" }), pickers = h("div", { class: "row" });
  const pair = [0, 1];
  const draw = () => put(pickers, [0, 1].map((k) => choice(k ? "second term" : "first term", app.reward.terms.map((term, i) => [i, term.name]), pair[k], (v) => { pair[k] = Number(v); })));
  const go = async () => {
    if (app.reward.terms.length < 2) { put(out, h("p", { class: "error" }, "A trade-off is between two terms: add another one to the reward.")); return; }
    const found = await app.ask("trade", { reward: app.reward.asked(), pair }, out);
    if (found) put(out, curve(found, (i) => take(found, i)));
  };
  const take = (found, i) => {
    const share = found.points[i].share, weights = [(1 - share) / found.scales[0], share / found.scales[1]];
    const most = Math.max(...weights);
    app.reward.before();
    app.reward.terms.forEach((term, i) => { term.weight = pair.includes(i) ? Number(((term.weight * weights[pair.indexOf(i)]) / most).toPrecision(12)) : 0; });
    app.reward.changed();
  };
  draw();
  return { nodes: [h("p", { class: "soft" }, "What can be had of one term for so much of another. Each point is a plan, and its box is where both values certainly lie; nothing is beyond the line. Choose a point to take its plan: the weights become those that lead to it, and those of other terms 0."),
    pickers, h("button", { class: "main", onclick: go }, "Draw the curve"), out], draw };
}

function curve(found, take) {
  const width = 340, height = 250, m = 34;
  const all = (name) => found.points.flatMap((p) => [p[name].lower, p[name].upper]);
  const ends = (xs) => { const [a, b] = [Math.min(...xs), Math.max(...xs)]; const k = (b - a || 1) * 0.05; return [a - k, b + k]; };
  const [x0, x1] = ends(all("first")), [y0, y1] = ends(all("second"));
  const px = (x) => m + ((x - x0) / (x1 - x0)) * (width - m - 6), py = (y) => height - m - ((y - y0) / (y1 - y0)) * (height - m - 24);
  const beyond = found.beyond.filter(([, y]) => y >= y0).map(([x, y]) => `${px(x)},${py(Math.min(y, y1))}`).join(" ");
  const boxes = found.points.map((p) => svg("rect", { x: px(p.first.lower), y: py(p.second.upper), width: Math.max(2, px(p.first.upper) - px(p.first.lower)), height: Math.max(2, py(p.second.lower) - py(p.second.upper)) }));
  return h("div", {}, svg("svg", { viewBox: `0 0 ${width} ${height}`, class: "trade", role: "group", "aria-label": `${found.names[1]} against ${found.names[0]}` },
    svg("polyline", { points: beyond, class: "beyond" }),
    boxes, found.points.map((p, i) => {
      const lit = (on) => () => boxes[i].classList.toggle("lit", on), at = { cx: px(p.first.value), cy: py(p.second.value) };
      return svg("g", { tabindex: "0", role: "button", class: "point", onclick: () => take(i), onpointerenter: lit(true), onpointerleave: lit(false), onfocus: lit(true), onblur: lit(false),
        onkeydown: (e) => { if (e.key === "Enter" || e.key === " ") { e.preventDefault(); take(i); } }, "aria-label": `${found.names[0]} ${said(p.first.value)}, ${found.names[1]} ${said(p.second.value)}: take this plan` },
        svg("circle", { ...at, r: 13, class: "around" }), svg("circle", { ...at, r: 5 }));
    }),
    svg("text", { x: width - 6, y: height - 8, "text-anchor": "end" }, `${found.names[0]} →`), svg("text", { x: m, y: 12 }, `↑ ${found.names[1]}`),
    svg("text", { x: m, y: height - 20 }, said(x0, 3)), svg("text", { x: width - 6, y: height - 20, "text-anchor": "end" }, said(x1, 3))),
    h("p", { class: "soft" }, `All of it at once with probability at least ${found.sure}.`));
}

export function explorePanel(app) {
  const out = h("div", { "aria-live": "off" }), asked = { env: app.hello.environments[0], horizon: 20, epsilon: 2, stationary: true };
  let timer = null;
  const form = h("div", {},
    labelled("Environment", choice("environment", app.hello.environments.map((name) => [name, name]), asked.env, (v) => { asked.env = v; })),
    h("div", { class: "row" },
      labelled("Horizon", h("input", { type: "number", min: 1, value: asked.horizon, oninput: (e) => { asked.horizon = e.target.valueAsNumber; } })),
      labelled("until ε", h("input", { type: "number", min: 0, step: "any", value: asked.epsilon, oninput: (e) => { asked.epsilon = e.target.value ? e.target.valueAsNumber : null; } }))),
    labelled("transitions do not depend on the step", h("input", { type: "checkbox", checked: asked.stationary, onchange: (e) => { asked.stationary = e.target.checked; } }), { class: "check" }));
  const buttons = h("div", { class: "row" });
  let shown = 0;
  const tell = async (body) => {
    const found = await app.ask("explore", body, out);
    if (!found) return;
    draw(found);
    clearTimeout(timer);
    if (found.curve.length && found.episodes !== shown) { shown = found.episodes; await app.follow(found); }
    clearTimeout(timer);
    if (found.running) timer = setTimeout(() => tell({ do: "look" }), 400); // once the picture is that of this look
  };
  const draw = (found) => {
    put(buttons,
      found.running || found.paused ? null : h("button", { class: "main", onclick: () => tell({ do: "start", ...asked }) }, "Explore"),
      !found.running && !found.paused && app.hello.can_extend ? h("button", { onclick: () => tell({ do: "start", extend: true, epsilon: asked.epsilon, atlas: app.hello.atlas }) }, "Explore this one further") : null,
      found.running ? h("button", { class: "main", onclick: () => tell({ do: "pause" }) }, "Pause") : null,
      found.paused ? [h("button", { class: "main", onclick: () => tell({ do: "resume" }) }, "Go on"), h("button", { onclick: () => tell({ do: "start", ...asked }) }, "Start anew")] : null);
    const line = (k, scale = 1) => [{ points: found.curve.map((p) => [p[0], p[k] * scale]) }];
    put(out, found.error ? h("p", { class: "error" }, found.error) : null,
      found.curve.length ? [
        h("p", {}, h("b", {}, many(found.episodes)), ` episodes of ${found.env}`, found.met ? ": certified." : found.paused ? ", paused." : found.running ? " …" : "."),
        chart("ε", line(1), { log: true, now: found.epsilon_text }), chart("states that were visited", line(2, 100), { log: true, yText: (y) => `${said(y, 3)}%` }),
        chart("episodes a second", line(3), { log: true, yText: (y) => many(y) }),
        found.saved ? h("p", { class: "soft" }, `saved in ${found.saved}`) : null] : found.running ? h("p", { class: "soft" }, "The first episodes are being played …") : null);
  };
  draw({ curve: [], running: false, paused: false });
  return [form, buttons, out];
}

export function filesPanel(app) {
  const out = h("div", { "aria-live": "polite" });
  const get = async (what, as) => {
    const found = await app.ask("export", { reward: app.reward.asked(), cautious: app.cautious, what, as, view: app.stage.now() }, out);
    if (found) { save(found.name, found.type, bytesOf(found.content)); put(out, h("p", { class: "soft" }, `${found.name} is with your downloads.`)); }
  };
  const three = (what) => h("div", { class: "row" }, h("span", { class: "grow" }, `The ${what}`), ["csv", "json", "npz"].map((as) => h("button", { "aria-label": `${what} as ${as.toUpperCase()}`, onclick: () => get(what, as) }, as.toUpperCase())));
  return [three("policy"), three("reward"),
    h("div", { class: "row" }, h("span", { class: "grow" }, "This picture as a page that needs no server"), h("button", { "aria-label": "picture as a page, HTML", onclick: () => get("page", "html") }, "HTML")),
    app.model.address ? h("div", { class: "row" }, h("span", { class: "grow" }, "A link that carries this reward"), h("button", { onclick: async () => {
      await app.remember();
      await navigator.clipboard.writeText(app.model.address.link()).then(() => put(out, h("p", { class: "soft" }, "The link is in your clipboard.")), () => put(out, h("p", {}, app.model.address.link())));
    } }, "Copy link")) : null, out];
}
