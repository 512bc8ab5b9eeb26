// -------------------------------------------------------------------- scores against k, n and the encoder
const SMALL = 0.03;  // differences below this part of the axis do not count as an order

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
  const encoders = (Object.values(models)[0] || {}).names, said = at => encoders ? encoders[at - 1] : counted(at);
  const along = encoders ? at => at : Math.log10, room = encoders ? 0.5 : 0;  // encoders have no scale: side by side
  const figure = el("figure", {"data-trend": by}), ends = [along(values[0]) - room, along(values[values.length - 1]) + room];
  const top = column.unit ? 1 : Math.max(1e-9, ...all.map(p => p.value)) * 1.05;
  const chart = frame(figure, {x: ends, y: [0, top], log: !encoders, xLabel: label, yLabel: column.label, title: `${column.label} against ${label}`, xTicks: values.map(v => [along(v), said(v)])});
  const used = data.trends.used[by];
  if (used && values.includes(used)) chart.root.append(svg("line", {x1: chart.px(used), x2: chart.px(used), y1: chart.py(0), y2: chart.py(top), class: "ray"}));
  for (const {name, points} of series) {
    const mark = colorOf(name), d = path(points.map(p => p.at), points.map(p => p.value), chart.px, chart.py);
    chart.root.append(svg("path", {d, class: "trend", mark, "stroke-dasharray": dash(names.indexOf(name))}));
    for (const p of points) {
      const dot = svg("circle", {cx: chart.px(p.at), cy: chart.py(p.value), r: 3.5, class: "dot", mark, "data-model": name});
      dot.append(svg("title", {}, `${name}, ${by} = ${said(p.at)}: ${number(p.value, undefined, column.unit)}`));
      chart.root.append(dot);
    }
  }
  const setting = encoders ? "the encoder" : by;
  const order = series.length < 2 ? "" : changesOrder(series, SMALL * top) ? ` The order of the models depends on ${setting}.` : ` No two models clearly change places as ${setting} varies.`;
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
  const measured = settings.map(s => s.by);
  const subsamples = "The same scores at other settings, computed on random subsamples with equally many samples on both sides. "
    + `Against the sample size, k = ${used.k} throughout, and the last point has all samples if both sides are equally large. A score that still changes at the right end would change with more samples. `;
  const encoders = "Each encoder has its own features: compare models with one encoder, and Fréchet distances never between encoders.";
  $("stability-about").textContent = (measured.some(by => by !== "encoder") ? subsamples : "") + (measured.includes("encoder") ? encoders : "");
  $("stability-score").replaceChildren(...scores.map(c => el("option", {value: c.key}, c.label)));
  $("stability-score").addEventListener("change", drawStability);
  const drawn = names.filter(name => settings.some(s => Object.hasOwn(s.models, name)));
  $("stability-key").replaceChildren(keys(drawn.map(name => [name, colorOf(name), dash(names.indexOf(name))])));
  drawStability();
}
