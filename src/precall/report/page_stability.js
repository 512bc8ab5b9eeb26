// -------------------------------------------------------------------- scores against k and against n
const SMALL = 0.03;  // differences below this part of the axis do not count as an order
const counted = n => n.toLocaleString("en-US");

// the points of one model at which the score is known and finite
function trendPoints(points, key) {
  const values = points.scores[key] || [];
  return points.at.map((at, i) => ({at, n: points.n[i], value: values[i]})).filter(p => Number.isFinite(p.value));
}
// whether two models change places, each time by more than `margin`
function changesOrder(series, margin) {
  const valueAt = (s, at) => (s.points.find(p => p.at === at) || {}).value;
  return series.some((a, i) => series.slice(i + 1).some(b => {
    const gaps = a.points.map(p => p.value - valueAt(b, p.at));
    return gaps.some(gap => gap > margin) && gaps.some(gap => gap < -margin);
  }));
}

function drawTrend({by, label, models}, column) {
  const series = Object.entries(models).map(([name, points]) => ({name, points: trendPoints(points, column.key)})).filter(s => s.points.length);
  const all = series.flatMap(s => s.points), values = [...new Set(all.map(p => p.at))].sort((a, b) => a - b);
  if (values.length < 2) return null;
  const figure = el("figure", {"data-trend": by}), ends = [values[0], values[values.length - 1]].map(Math.log10);
  const top = column.unit ? 1 : Math.max(1e-9, ...all.map(p => p.value)) * 1.05;
  const chart = frame(figure, {x: ends, y: [0, top], log: true, xLabel: label, yLabel: column.label, title: `${column.label} against ${label}`, xTicks: values.map(v => [Math.log10(v), counted(v)])});
  const used = data.trends.used[by];
  if (used && values.includes(used)) chart.root.append(svg("line", {x1: chart.px(used), x2: chart.px(used), y1: chart.py(0), y2: chart.py(top), class: "ray"}));
  for (const {name, points} of series) {
    const mark = colorOf(name), d = path(points.map(p => p.at), points.map(p => p.value), chart.px, chart.py);
    chart.root.append(svg("path", {d, class: "trend", mark, "stroke-dasharray": dash(names.indexOf(name))}));
    for (const p of points) {
      const dot = svg("circle", {cx: chart.px(p.at), cy: chart.py(p.value), r: 3.5, class: "dot", mark, "data-model": name});
      dot.append(svg("title", {}, `${name}, ${by} = ${counted(p.at)}: ${number(p.value, undefined, column.unit)}`));
      chart.root.append(dot);
    }
  }
  const order = series.length < 2 ? "" : changesOrder(series, SMALL * top) ? ` The order of the models depends on ${by}.` : ` No two models clearly change places as ${by} varies.`;
  figure.querySelector("figcaption").textContent = `${column.label[0].toUpperCase()}${column.label.slice(1)} against ${label}.${trendNote(by, all)}${order}`;
  return figure;
}
// what was subsampled
function trendNote(by, points) {
  if (by !== "k") return "";
  const sizes = [...new Set(points.map(p => p.n))].sort((a, b) => a - b).map(counted);
  return ` Computed on ${sizes.length > 1 ? `${sizes[0]} to ${sizes[sizes.length - 1]}` : sizes[0]} samples per side.`;
}

function drawStability() {
  const column = data.trends.scores.find(c => c.key === $("stability-score").value);
  $("stability").replaceChildren(...data.trends.settings.map(setting => drawTrend(setting, column)).filter(Boolean));
}
function startStability() {
  const {scores, settings, used} = data.trends;
  if (!scores.length) return $("stability-box").remove();
  $("stability-about").textContent = "The same scores at other settings, computed on random subsamples with equally many samples on both sides. "
    + `Against the sample size, k = ${used.k} throughout, and the last point has all samples if both sides are equally large. A score that still changes at the right end would change with more samples.`;
  $("stability-score").replaceChildren(...scores.map(c => el("option", {value: c.key}, c.label)));
  $("stability-score").addEventListener("change", drawStability);
  const drawn = names.filter(name => settings.some(s => Object.hasOwn(s.models, name)));
  $("stability-key").replaceChildren(keys(drawn.map(name => [name, colorOf(name), dash(names.indexOf(name))])));
  drawStability();
}
