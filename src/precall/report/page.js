"use strict";
// Everything is built with createElement and textContent, so no string of the data is ever parsed as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const names = data.models.map(model => model.name);
const shown = new Set(names);
const COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#7f7f7f", "#000000"];  // Okabe and Ito
const DASHES = ["", "7 4", "2 3", "9 3 2 3"];  // a second cue, for print and for colour-blind readers
const color = i => COLORS[i % COLORS.length];
const dash = i => DASHES[i % DASHES.length];
const $ = id => document.getElementById(id);

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "mark") node.style.setProperty("--mark", value);
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}
function svg(tag, attributes = {}, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  if (text !== undefined) node.textContent = text;
  return node;
}
const fixed = (x, digits = 3) => x === null || x === undefined ? "–" : Number.isFinite(x) ? x.toFixed(digits) : String(x);
function significant(x) {
  if (x === null || x === undefined) return "∞";
  return Math.abs(x) >= 100 ? x.toFixed(1) : Math.abs(x) >= 1 ? x.toFixed(2) : x.toFixed(3);
}

// ------------------------------------------------------------------------------------------------ charts
const W = 420, H = 340, L = 46, B = 40, T = 12, R = 12;

function frame(figure, {x, y, xLabel, yLabel, title, log = false}) {
  const root = svg("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title});
  const px = v => L + (W - L - R) * ((log ? Math.log10(v) : v) - x[0]) / (x[1] - x[0]);
  const py = v => H - B - (H - B - T) * (v - y[0]) / (y[1] - y[0]);
  for (let i = 0; i <= 5; i++) {
    const vx = x[0] + (x[1] - x[0]) * i / 5, vy = y[0] + (y[1] - y[0]) * i / 5;
    const gx = L + (W - L - R) * i / 5;
    root.append(svg("line", {x1: gx, x2: gx, y1: T, y2: H - B, class: "grid"}),
      svg("line", {x1: L, x2: W - R, y1: py(vy), y2: py(vy), class: "grid"}),
      svg("text", {x: gx, y: H - B + 15, "text-anchor": "middle"}, log ? "10^" + vx.toFixed(1) : trim(vx)),
      svg("text", {x: L - 6, y: py(vy) + 4, "text-anchor": "end"}, trim(vy)));
  }
  root.append(svg("line", {x1: L, x2: W - R, y1: H - B, y2: H - B, class: "axis"}),
    svg("line", {x1: L, x2: L, y1: T, y2: H - B, class: "axis"}),
    svg("text", {x: (L + W - R) / 2, y: H - 6, "text-anchor": "middle"}, xLabel),
    svg("text", {x: 12, y: (T + H - B) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(T + H - B) / 2})`}, yLabel));
  figure.replaceChildren(root, el("figcaption", {}, title));
  return {root, px, py, figure};
}
const trim = v => Math.abs(v) >= 10 ? v.toFixed(0) : String(+v.toFixed(2));
const path = (xs, ys, px, py) => xs.map((v, i) => (i ? "L" : "M") + px(v).toFixed(1) + " " + py(ys[i]).toFixed(1)).join("");

function tooltip(figure) {
  const tip = el("div", {class: "tip", hidden: ""});
  figure.append(tip);
  return {
    show(lines, fx, fy) {
      tip.replaceChildren(...lines.flatMap((line, i) => i ? [el("br"), line] : [line]));
      const box = figure.querySelector("svg").getBoundingClientRect();
      tip.style.left = Math.max(60, Math.min(box.width - 60, fx * box.width / W)) + "px";
      tip.style.top = fy * box.height / H + "px";
      tip.hidden = false;
    },
    hide() { tip.hidden = true; },
  };
}

function drawCurves() {
  const chart = frame($("curve"), {x: [0, 1], y: [0, 1], xLabel: "recall β", yLabel: "precision α", title: "Precision over recall"});
  const visible = data.models.map((m, i) => [m, i]).filter(([m]) => shown.has(m.name) && m.curve);
  for (const [m, i] of visible) {
    if (!m.curve.alpha_upper) continue;
    const outer = path(m.curve.beta_upper, m.curve.alpha_upper, chart.px, chart.py);
    const inner = path([...m.curve.beta].reverse(), [...m.curve.alpha].reverse(), chart.px, chart.py).replace("M", "L");
    chart.root.append(svg("path", {d: outer + inner + "Z", class: "band", fill: color(i)}));
  }
  const lam = slope();
  const end = lam <= 1 ? [1, lam] : [1 / lam, 1];
  chart.root.append(svg("line", {x1: chart.px(0), y1: chart.py(0), x2: chart.px(end[0]), y2: chart.py(end[1]), class: "ray"}));
  for (const [m, i] of visible) {
    chart.root.append(svg("path", {d: path(m.curve.beta, m.curve.alpha, chart.px, chart.py), class: "curve", stroke: color(i), "stroke-dasharray": dash(i), "data-model": m.name}));
    const point = at(m, lam);
    chart.root.append(svg("circle", {cx: chart.px(point.beta), cy: chart.py(point.alpha), r: 4.5, fill: color(i)}));
  }
  const tip = tooltip(chart.figure);
  chart.root.addEventListener("pointermove", event => {
    const box = chart.root.getBoundingClientRect();
    const x = (event.clientX - box.left) * W / box.width, y = (event.clientY - box.top) * H / box.height;
    let best = null;
    for (const [m] of visible) m.curve.lam.forEach((l, j) => {
      const d = Math.hypot(chart.px(m.curve.beta[j]) - x, chart.py(m.curve.alpha[j]) - y);
      if (!best || d < best.d) best = {d, m, j};
    });
    if (!best || best.d > 40) return tip.hide();
    const {m, j} = best, c = m.curve;
    tip.show([m.name, `λ ${significant(c.lam[j])} · α ${fixed(c.alpha[j])} · β ${fixed(c.beta[j])}`,
      ...(c.alpha_upper ? [`α at most ${fixed(c.alpha_upper[j])}`] : [])], chart.px(c.beta[j]), chart.py(c.alpha[j]));
  });
  chart.root.addEventListener("pointerleave", () => tip.hide());
}

function drawMap() {
  const chart = frame($("map"), {x: [0, 1], y: [0, 1], xLabel: "F8 (recall)", yLabel: "F1/8 (precision)", title: "One point per model: F1/8 over F8"});
  const points = data.models.map((m, i) => ({m, i, x: m.scores.f8 && m.scores.f8.value, y: m.scores.f1_8 && m.scores.f1_8.value}))
    .filter(p => shown.has(p.m.name) && p.m.curve).sort((a, b) => b.y - a.y);
  let free = T;  // labels of nearby points are moved down, so that they do not overlap
  for (const {m, i, x, y} of points) {
    const at = Math.max(chart.py(y) + 4, free + 13);
    free = at;
    chart.root.append(svg("circle", {cx: chart.px(x), cy: chart.py(y), r: 6, fill: color(i), "data-model": m.name}),
      svg("text", {x: chart.px(x) + (x > .5 ? -12 : 12), y: at, "text-anchor": x > .5 ? "end" : "start"}, m.name));
  }
}

const slope = () => Math.pow(10, Number($("lam").value));
// α is piecewise linear in λ; the page has its values on a fine grid of angles and interpolates between them
function at(m, lam) {
  const c = m.curve, grid = c.lam;
  let j = grid.findIndex(l => l >= lam);
  if (j <= 0) { const k = j === 0 ? 0 : grid.length - 1; return j === 0 ? {alpha: lam * c.beta[0], beta: c.beta[0]} : {alpha: c.alpha[k], beta: c.alpha[k] / lam}; }
  const t = (lam - grid[j - 1]) / (grid[j] - grid[j - 1]);
  const alpha = c.alpha[j - 1] + t * (c.alpha[j] - c.alpha[j - 1]);
  return {alpha, beta: alpha / lam};
}
const fScore = (p, s) => (1 + s * s) * p.alpha * p.beta / (s * s * p.alpha + p.beta) || 0;

function drawAtSlope() {
  const lam = slope();
  $("lam-value").textContent = "λ = " + significant(lam);
  const head = ["model", "precision α(λ)", "recall β(λ)", "F1(λ)", "F8(λ)", "F1/8(λ)"];
  $("at-lam").replaceChildren(el("thead", {}, el("tr", {}, ...head.map(h => el("th", {scope: "col"}, h)))),
    el("tbody", {}, ...data.models.map((m, i) => [m, i]).filter(([m]) => shown.has(m.name) && m.curve).map(([m, i]) => {
      const p = at(m, lam);
      return el("tr", {"data-model": m.name}, named(m.name, i), ...[p.alpha, p.beta, fScore(p, 1), fScore(p, 8), fScore(p, 1 / 8)].map(v => el("td", {}, fixed(v))));
    })));
}
const named = (name, i) => el("td", {}, el("span", {class: "swatch", mark: color(i)}), name);

function drawLegend() {
  $("legend").replaceChildren(...data.models.map((m, i) => el("button", {
    type: "button", "aria-pressed": String(shown.has(m.name)), mark: color(i), title: "click: show or hide · double-click: show only this one",
    onclick() { shown.has(m.name) ? shown.delete(m.name) : shown.add(m.name); redraw(); },
    ondblclick() { shown.clear(); shown.add(m.name); redraw(); },
  }, el("span", {class: "swatch", mark: color(i)}), m.name)));
}

function lines(kind, series, options) {
  if (!series.length) return;
  const figure = el("figure", {"data-chart": kind});
  $("readings").append(figure);
  const xs = series.flatMap(s => s.x), ys = series.flatMap(s => s.y).filter(Number.isFinite);
  const range = values => [Math.min(...values), Math.max(...values)];
  const chart = frame(figure, {x: options.log ? range(xs).map(Math.log10) : [0, 1], y: [0, options.top || Math.max(...ys) || 1], ...options});
  series.forEach((s, i) => chart.root.append(svg("path", {d: path(s.x, s.y, chart.px, chart.py), class: "curve", stroke: color(i), "stroke-dasharray": dash(i)})));
  figure.append(el("div", {class: "legend"}, ...series.map((s, i) => el("span", {class: "soft"}, el("span", {class: "swatch", mark: color(i)}), s.name))));
}

// ---------------------------------------------------------------------------------------------- galleries
function look(sample) {
  if (!sample) return null;
  if (sample.image) return el("img", {src: sample.image, alt: sample.id, loading: "lazy"});
  return el("div", {class: "text"}, sample.text || sample.id);
}
const card = (pair, caption, ...more) => el("div", {class: "card"}, el("div", {class: "pair"}, ...pair.map(look)), el("div", {class: "id"}, caption), ...more);

function drawSamples() {
  const m = data.models.find(model => model.name === $("model").value);
  const fill = (id, cards) => { const box = $(id); box.replaceChildren(...cards); box.previousElementSibling.hidden = box.hidden = !cards.length; };
  fill("missed", (m.missed || []).map(s => card([s.sample, s.nearest], s.sample.id)));
  fill("invented", (m.invented || []).map(s => card([s.sample, s.nearest], s.sample.id)));
  const top = Math.max(...(m.mosaic || []).flatMap(c => [c.real, c.fake]), 1e-9);
  fill("mosaic", (m.mosaic || []).map(c => card(c.samples, `real ${(100 * c.real).toFixed(1)} % · fake ${(100 * c.fake).toFixed(1)} %`,
    el("div", {class: "bars"}, el("div", {class: "bar real", style: `width:${100 * c.real / top}%`}),
      el("div", {class: "bar", mark: color(names.indexOf(m.name)), style: `width:${100 * c.fake / top}%`})))));
  const copies = m.scores.copies;
  $("copies-share").textContent = copies ? `${(100 * copies.value).toFixed(1)} % of the fakes have a distance to a real sample that is less than half that sample's distance to its nearest real neighbour${copies.chance === null ? "" : `; for fresh data it would be ${(100 * copies.chance).toFixed(1)} %`}.` : "";
  fill("copies", (m.copies || []).map(s => card([s.sample, s.nearest], `${s.sample.id} · ratio ${fixed(s.ratio, 2)}`)));
  $("copies-share").previousElementSibling.hidden = !copies;
}

// ----------------------------------------------------------------------------------------------- tables
const ARROWS = {higher: " ↑", lower: " ↓"};

function drawScores() {
  const columns = data.columns.filter(c => data.models.some(m => m.scores[c.key]));
  $("scores").replaceChildren(el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "model"), ...columns.map(c => el("th", {scope: "col"}, c.label + (ARROWS[c.better] || ""))))),
    el("tbody", {}, ...data.models.map((m, i) => el("tr", {"data-model": m.name}, named(m.name, i), ...columns.map(c => {
      const s = m.scores[c.key];
      if (!s) return el("td", {}, "–");
      return el("td", {"data-score": c.key}, significant(s.value),
        s.interval ? el("span", {class: "interval"}, `[${significant(s.interval.low)}, ${significant(s.interval.high)}]`) : null,
        s.chance !== null ? el("span", {class: "chance"}, `chance ${significant(s.chance)}`) : null);
    })))));
}
function drawDivergences() {
  const rows = data.models.filter(m => m.divergences);
  if (!rows.length) return $("divergences").remove();
  const keys = Object.keys(rows[0].divergences);
  $("divergences").replaceChildren(el("thead", {}, el("tr", {}, el("th", {}, "divergence of the curve"), ...keys.map(k => el("th", {scope: "col"}, k)))),
    el("tbody", {}, ...rows.map(m => el("tr", {}, named(m.name, names.indexOf(m.name)), ...keys.map(k => el("td", {}, significant(m.divergences[k])))))));
}

function redraw() { drawLegend(); drawCurves(); drawMap(); drawAtSlope(); }

function start() {
  $("subtitle").textContent = data.subtitle;
  $("verdicts").replaceChildren(...data.models.map((m, i) => el("li", {mark: color(i)}, el("strong", {}, m.name + ": "), m.verdict)));
  drawScores();
  drawDivergences();
  $("model").replaceChildren(...names.map(name => el("option", {value: name}, name)));
  $("model").addEventListener("change", drawSamples);
  $("lam").addEventListener("input", () => { drawCurves(); drawAtSlope(); });
  redraw();
  drawSamples();
  const square = {xLabel: "recall β", yLabel: "precision α", top: 1};
  for (const m of data.models) lines("budget", (m.budgets || []).map(b => ({name: "K = " + b.budget, x: b.beta, y: b.alpha})),
    {...square, title: `Effect of a sampling budget (${m.name}): best curve with K draws per kept sample`});
  for (const m of data.models) lines("groups", (m.groups || []).map(g => ({name: g.name, x: g.beta, y: g.alpha})),
    {...square, title: `Curves per group (${m.name}). ${m.fairness || ""}`});
  lines("frontier", data.models.filter(m => m.frontier).map(m => ({name: m.name, x: m.frontier.recall, y: m.frontier.precision})),
    {xLabel: "recall exp(−D(R‖P))", yLabel: "precision exp(−D(R‖Q))", top: 1, title: "Exclusive Kullback-Leibler frontier"});
  lines("weights", data.weights || [], {log: true, xLabel: "slope λ", yLabel: "weight · λ", title: "Weight of each trade-off in a divergence (per log λ)"});
  if (!data.models.some(m => m.missed || m.invented || m.mosaic || m.copies)) $("samples").remove();
  $("protocol").textContent = data.protocol;
}
start();
