// Small helpers: elements, packed arrays, numbers in words. Every text becomes a text node, so that no name can be markup.

export function h(tag, props = {}, ...children) {
  return filled(document.createElement(tag), props, children);
}

export function svg(tag, props = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), props, children);
}

function filled(node, props, children) {
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [key, text] of Object.entries(value)) node.style.setProperty(key, text);
    else if (["value", "checked", "disabled", "hidden", "open", "selected"].includes(name)) node[name] = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function put(node, ...children) {
  node.replaceChildren(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

const ARRAYS = { u1: Uint8Array, u2: Uint16Array, f4: Float32Array };

// An array that Python packed: {shape, values}; the last axis varies fastest.
export function unpacked(given) {
  if (!given) return null;
  const text = atob(given.data);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  return { shape: given.shape, values: new ARRAYS[given.kind](bytes.buffer) };
}

export function bytesOf(base64) {
  return Uint8Array.from(atob(base64), (c) => c.charCodeAt(0));
}

export function said(x, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return "–";
  if (x === 0) return "0";
  const size = Math.abs(x);
  if (size >= 1e6 || size < 1e-4) return x.toExponential(2);
  return String(Number(x.toPrecision(digits)));
}

export function many(n) {
  if (n >= 1e15) return n.toExponential(1);
  return n >= 1e6 ? `${said(n / 1e6, 3)} million` : Math.round(n).toLocaleString("en");
}

export function percent(x) {
  return x <= 0 ? "0%" : x < 0.001 ? "<0.1%" : `${Number((100 * x).toPrecision(3))}%`;
}

export const clamp = (x, low, high) => Math.min(high, Math.max(low, x));

// Sorted numbers as ranges [first, last].
export function ranges(numbers) {
  const found = [];
  for (const n of [...numbers].sort((a, b) => a - b)) {
    const last = found[found.length - 1];
    if (last && n <= last[1] + 1) last[1] = Math.max(last[1], n);
    else found.push([n, n]);
  }
  return found;
}

export function* within(pairs) {
  for (const [first, last] of pairs) for (let n = first; n <= last; n++) yield n;
}

export function save(name, type, bytes) {
  const url = URL.createObjectURL(new Blob([bytes], { type }));
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// A labelled control.
export function labelled(text, control, props = {}) {
  return h("label", { ...props, class: `field ${props.class ?? ""}` }, h("span", {}, text), control);
}

export function choice(name, options, value, onchange) {
  const found = h("select", { "aria-label": name, onchange: () => onchange(found.value) },
    options.map(([key, text]) => h("option", { value: key, selected: String(key) === String(value) }, text)));
  return found;
}

// A small chart of lines over a common x; each line is {name, points: [[x, y], ...], color}.
export function chart(name, lines, { width = 320, height = 110, log = false, yText = said, now } = {}) {
  const points = lines.flatMap((line) => line.points).filter(([, y]) => Number.isFinite(y));
  if (points.length < 2) return h("p", { class: "soft" }, `${name}: soon`);
  const at = (x) => (log ? Math.log(Math.max(x, 1)) : x);
  const xs = points.map(([x]) => at(x)), ys = points.map(([, y]) => y);
  const [x0, x1] = [Math.min(...xs), Math.max(...xs)], [y0, y1] = [Math.min(0, ...ys), Math.max(...ys) || 1];
  const px = (x) => 4 + ((at(x) - x0) / (x1 - x0 || 1)) * (width - 8);
  const py = (y) => height - 6 - ((y - y0) / (y1 - y0 || 1)) * (height - 22);
  const latest = now ?? yText(lines[0].points[lines[0].points.length - 1][1]);
  return h("figure", { class: "chart" },
    h("figcaption", {}, name, " ", h("b", {}, latest)),
    svg("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": `${name}, now ${latest}` },
      svg("line", { x1: 4, x2: width - 4, y1: py(y0), y2: py(y0), class: "axis" }),
      lines.map((line) => svg("polyline", { class: line.class ?? "line",
        points: line.points.filter(([, y]) => Number.isFinite(y)).map(([x, y]) => `${px(x).toFixed(1)},${py(y).toFixed(1)}`).join(" ") })),
      svg("text", { x: width - 4, y: 12, "text-anchor": "end" }, yText(y1))));
}
