// ------------------------------------------------------------------------------------------------ charts
const W = 400, H = 320, L = 46, B = 42, T = 12;

function ticks([low, high], log) {
  if (log) return Array.from({length: Math.floor(high) - Math.ceil(low) + 1}, (_, i) => Math.ceil(low) + i).map(e => [e, String(+Math.pow(10, e).toPrecision(1))]);
  return [0, 1, 2, 3, 4, 5].map(i => low + (high - low) * i / 5).map(v => [v, String(+v.toPrecision(3))]);
}

function frame(figure, {x, y, xLabel, yLabel, title, log = false, right = 14, xTicks}) {
  const root = svg("svg", {viewBox: `0 0 ${W} ${H}`, role: "img", "aria-label": title});
  const along = v => L + (W - L - right) * (v - x[0]) / (x[1] - x[0]);
  const px = v => along(log ? Math.log10(v) : v);
  const py = v => H - B - (H - B - T) * (v - y[0]) / (y[1] - y[0]);
  for (const [v, text] of xTicks || ticks(x, log)) root.append(svg("line", {x1: along(v), x2: along(v), y1: T, y2: H - B, class: "grid"}),
    svg("text", {x: along(v), y: H - B + 17, "text-anchor": "middle"}, text));
  for (const [v, text] of ticks(y, false)) root.append(svg("line", {x1: L, x2: W - right, y1: py(v), y2: py(v), class: "grid"}),
    svg("text", {x: L - 7, y: py(v) + 4, "text-anchor": "end"}, text));
  root.append(svg("line", {x1: L, x2: W - right, y1: H - B, y2: H - B, class: "axis"}),
    svg("line", {x1: L, x2: L, y1: T, y2: H - B, class: "axis"}),
    svg("text", {x: (L + W - right) / 2, y: H - 6, "text-anchor": "middle"}, xLabel),
    svg("text", {x: 12, y: (T + H - B) / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${(T + H - B) / 2})`}, yLabel));
  figure.replaceChildren(root, el("figcaption", {}, title));
  return {root, px, py, figure, edge: W - right};
}
const path = (xs, ys, px, py) => xs.map((v, i) => (i ? "L" : "M") + px(v).toFixed(1) + " " + py(ys[i]).toFixed(1)).join("");

// a note beside a point of a chart; `at` is its place in the coordinates of the chart
function tooltip(figure, width = W, height = H) {
  const tip = el("div", {class: "tip", role: "status"});
  tip.hidden = true;
  figure.append(tip);
  return {
    show(lines, [x, y]) {
      tip.replaceChildren(...lines.map(line => line instanceof Node ? line : el("div", {}, line)));
      tip.hidden = false;
      const box = figure.querySelector("svg").getBoundingClientRect();
      const left = x * box.width / width - tip.offsetWidth / 2, above = y * box.height / height - tip.offsetHeight - 12;
      tip.style.left = Math.max(0, Math.min(box.width - tip.offsetWidth, left)) + "px";
      tip.style.top = (above < 0 ? y * box.height / height + 16 : above) + "px";
    },
    hide() { tip.hidden = true; },
  };
}
// where the pointer is, in the coordinates of the chart
function pointer(event, root, width = W, height = H) {
  const box = root.getBoundingClientRect();
  return [(event.clientX - box.left) * width / box.width, (event.clientY - box.top) * height / box.height];
}

function lines(box, kind, series, options) {
  if (!series.length) return;
  const figure = el("figure", {"data-chart": kind});
  box.append(figure);
  const xs = series.flatMap(s => s.x), top = options.top || Math.max(...series.flatMap(s => s.y).filter(Number.isFinite)) || 1;
  const x = options.log ? [Math.min(...xs), Math.max(...xs)].map(Math.log10) : [0, 1];
  const chart = frame(figure, {x, y: [0, top], ...options});
  series.forEach((s, i) => chart.root.append(drawn(s, chart, s.mark || color(i), dash(i))));
  figure.append(keys(series.map((s, i) => [s.name, s.mark || color(i), dash(i)])));
}
// a curve, or a dot if all of its points coincide
function drawn(s, {px, py}, mark, dashes) {
  const xs = s.x.map(px), ys = s.y.map(py), extent = values => Math.max(...values) - Math.min(...values);
  if (Math.max(extent(xs), extent(ys)) < 3) return svg("circle", {cx: xs[0], cy: ys[0], r: 4, class: "dot", mark});
  return svg("path", {d: path(s.x, s.y, px, py), class: "curve", mark, "stroke-dasharray": dashes});
}
// a legend of lines: each entry shows colour and dashes
const keys = entries => el("div", {class: "keys"}, ...entries.map(([name, mark, dashes]) => {
  const line = svg("svg", {viewBox: "0 0 26 8", "aria-hidden": "true", class: "line-key"});
  line.append(svg("line", {x1: 1, x2: 25, y1: 4, y2: 4, class: "curve", mark, "stroke-dasharray": dashes}));
  return el("span", {}, line, name);
}));

// labels in a column at the right of the chart, at least one line apart, each joined to its point
const ROOM = 14;
function sideLabels(chart, points) {
  const sorted = [...points].sort((a, b) => a.y - b.y);
  let free = T;
  const places = sorted.map(p => (free = Math.max(p.y + 4, free + ROOM)));
  const over = Math.max(0, places[places.length - 1] - (H - B));
  for (let i = places.length - 1, limit = H - B; over && i >= 0; i--, limit -= ROOM) places[i] = Math.min(places[i], limit);
  sorted.forEach((p, i) => {
    const text = svg("text", {x: chart.edge + 22, y: places[i], "data-label": p.name}, p.name);
    chart.root.append(svg("path", {d: `M${p.x + 7} ${p.y}L${chart.edge + 8} ${places[i] - 4}h10`, class: "leader"}), text);
    for (let n = p.name.length - 1; n > 3 && text.getComputedTextLength() > W - chart.edge - 24; n--) text.textContent = short(p.name, n);
    if (text.textContent !== p.name) text.append(svg("title", {}, p.name));
  });
}
