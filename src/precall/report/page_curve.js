// ------------------------------------------------------------------------------- the curve and its slope
const shown = new Set(names);
const visible = () => data.models.map((m, i) => [m, i]).filter(([m]) => shown.has(m.name) && m.curve);
const slope = () => Math.pow(10, Number($("lam").value));

// α is piecewise linear in λ; the page has its values on a fine grid of angles and interpolates between them
function at(curve, lam, values = curve.alpha) {
  const grid = curve.lam, last = grid.length - 1, j = grid.findIndex(l => l >= lam);
  if (j === 0) return lam * values[0] / grid[0];
  if (j < 0) return values[last];
  const t = (lam - grid[j - 1]) / (grid[j] - grid[j - 1]);
  return values[j - 1] + t * (values[j] - values[j - 1]);
}

function drawCurves() {
  const chart = frame($("curve"), {x: [0, 1], y: [0, 1], xLabel: "recall β", yLabel: "precision α", title: "Precision over recall"});
  for (const [m, i] of visible()) {
    if (!m.curve.alpha_upper) continue;
    const outer = path(m.curve.beta_upper, m.curve.alpha_upper, chart.px, chart.py);
    const inner = path([...m.curve.beta].reverse(), [...m.curve.alpha].reverse(), chart.px, chart.py).replace("M", "L");
    chart.root.append(svg("path", {d: outer + inner + "Z", class: "band", mark: color(i)}));
  }
  const lam = slope(), end = lam <= 1 ? [1, lam] : [1 / lam, 1];
  chart.root.append(svg("line", {x1: chart.px(0), y1: chart.py(0), x2: chart.px(end[0]), y2: chart.py(end[1]), class: "ray"}));
  for (const [m, i] of visible()) {
    const alpha = at(m.curve, lam);
    const curve = drawn({x: m.curve.beta, y: m.curve.alpha}, chart, color(i), dash(i));
    curve.setAttribute("data-model", m.name);
    chart.root.append(curve,
      svg("circle", {cx: chart.px(alpha / lam), cy: chart.py(alpha), r: 4.5, class: "dot", mark: color(i)}));
  }
  hoverCurves(chart);
}
function hoverCurves(chart) {
  const tip = tooltip(chart.figure);
  chart.root.addEventListener("pointermove", event => {
    const [x, y] = pointer(event, chart.root);
    let best = null;
    for (const [m] of visible()) m.curve.lam.forEach((l, j) => {
      const d = Math.hypot(chart.px(m.curve.beta[j]) - x, chart.py(m.curve.alpha[j]) - y);
      if (!best || d < best.d) best = {d, m, j};
    });
    if (!best || best.d > 40) return tip.hide();
    const {m, j} = best, c = m.curve;
    tip.show([m.name, `λ ${number(c.lam[j])}: precision ${fixed(c.alpha[j])}, recall ${fixed(c.beta[j])}`,
      ...(c.alpha_upper ? [`at most ${fixed(c.alpha_upper[j])} and ${fixed(c.beta_upper[j])}`] : [])], [chart.px(c.beta[j]), chart.py(c.alpha[j])]);
  });
  chart.root.addEventListener("pointerleave", () => tip.hide());
}

function drawOverview() {
  const chart = frame($("overview"), {x: [0, 1], y: [0, 1], right: 160, xLabel: "F8: recall", yLabel: "F1/8: precision", title: "One point per model: precision (F1/8) over recall (F8)"});
  const points = visible().map(([m, i]) => ({name: m.name, i, x: chart.px(m.scores.f8.value), y: chart.py(m.scores.f1_8.value)}));
  if (points.length <= 20) sideLabels(chart, points);
  for (const p of points) chart.root.append(svg("circle", {cx: p.x, cy: p.y, r: 6, class: "dot", mark: color(p.i), "data-model": p.name}));
}

function drawAtSlope() {
  const lam = slope();
  $("lam-value").textContent = "λ = " + number(lam);
  $("lam").setAttribute("aria-valuetext", number(lam));
  const certified = visible().some(([m]) => m.curve.alpha_upper);
  const columns = ["precision α(λ)", ...(certified ? ["precision at most"] : []), "recall β(λ)", ...(certified ? ["recall at most"] : [])].map(label => ({key: label, label}));
  const values = m => {
    const alpha = at(m.curve, lam), top = m.curve.alpha_upper ? Math.min(1, lam, at(m.curve, lam, m.curve.alpha_upper)) : null;
    return certified ? [alpha, top, alpha / lam, top === null ? null : top / lam] : [alpha, alpha / lam];
  };
  const cells = m => values(m).map((v, i) => cell(columns[i].label, el("span", {}, fixed(v))));
  $("at-lam").setAttribute("role", "table");
  $("at-lam").replaceChildren(...scoreTable(columns, visible().map(([m, i]) => ({name: m.name, mark: color(i), cells: cells(m)})), "Precision and recall at the slope λ"));
}

function drawLegend() {
  $("legend").replaceChildren(...data.models.map((m, i) => el("button", {
    type: "button", "aria-pressed": String(shown.has(m.name)), title: "click: show or hide · double-click: show only this one",
    onclick() { shown.has(m.name) ? shown.delete(m.name) : shown.add(m.name); redraw(i); },
    ondblclick() { shown.clear(); shown.add(m.name); redraw(i); },
  }, swatch(color(i)), m.name)));
}
function redraw(focused) {
  drawLegend(); drawCurves(); drawOverview(); drawAtSlope();
  if (focused !== undefined) $("legend").children[focused].focus();
}

// models at several settings of a sampling knob
function drawKnob() {
  if (!data.knob) return $("knob").remove();
  const models = data.knob.models, figure = el("figure", {"data-chart": "settings"}), ends = score => score.interval ? [score.interval.low, score.interval.high] : [score.value, score.value];
  $("ahead").replaceChildren(...data.knob.ahead.map(sentence => el("p", {}, sentence)));
  $("knob-charts").replaceChildren(figure);
  const chart = frame(figure, {x: [0, 1], y: [0, 1], xLabel: "recall", yLabel: "precision", title: "k-NN scores at each setting"}), {px, py} = chart;
  models.forEach(({settings}, i) => {
    const at = settings.map(({scores}) => [px(scores.recall.value), py(scores.precision.value)]), mark = color(i);
    chart.root.append(svg("path", {d: "M" + at.map(p => p.join(" ")).join("L"), class: "trend", mark, "stroke-dasharray": dash(i)}));
    settings.forEach(({name, scores}, j) => {
      const [x, y] = at[j], [left, right] = ends(scores.recall).map(px), [low, high] = ends(scores.precision).map(py);
      chart.root.append(svg("path", {d: `M${left} ${y}H${right}M${x} ${low}V${high}`, class: "trend", mark}), svg("circle", {cx: x, cy: y, r: 4, class: "dot", mark}), svg("text", {x: x - 6, y: y < 26 ? y + 15 : y - 6, "text-anchor": "end"}, name));
    });
  });
  figure.append(keys(models.map((m, i) => [m.name, color(i), dash(i)])));
  lines($("knob-charts"), "envelopes", models, {xLabel: "recall β", yLabel: "precision α", top: 1, title: "Best curve over all settings"});
  const columns = ["precision", "recall"].map(key => COLUMNS.get(key)), best = {key: "best", label: "best for λ"};
  $("knob-tables").replaceChildren(...models.flatMap(m => [el("h3", {}, m.name), el("table", {class: "scores", role: "table"}, ...scoreTable([...columns, best],
    m.settings.map(s => ({name: s.name, cells: [...columns.map(c => scoreCell(s.scores[c.key], c)), cell(best.label, s.best)]})), m.name, "Setting"))]));
}
