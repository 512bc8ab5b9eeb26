// ------------------------------------------------------------------------------------------------ the map
const MAP = 720, EDGE = 14;
let mapColor = "side", mapped = null;
const RATIOS = [[-Infinity, "model over three times the data", "var(--m1)"], [-Math.log(3), "about equal", "var(--m6)"], [Math.log(3), "data over three times the model", "var(--m0)"]];

function pointsOf(m) {
  return ["real", "fake"].flatMap(side => m.map[side].id.map((id, i) => ({
    id, side, x: m.map[side].x[i] * (MAP - 2 * EDGE) / 1000 + EDGE, y: (m.map.size[1] - m.map[side].y[i]) * (MAP - 2 * EDGE) / 1000 + EDGE,
    ratio: m.map[side].ratio ? m.map[side].ratio[i] : null, cluster: m.map[side].cluster ? m.map[side].cluster[i] : null,
  })));
}
// each colouring sorts the points into layers: a name, a colour, and the points that belong to it
const LAYERS = {
  side: (points, m) => [["real", "var(--real)", p => p.side === "real"], [`fake (${m.name})`, colorOf(m.name), p => p.side === "fake"]],
  ratio: () => RATIOS.map(([low, name, mark], i) => [name, mark, p => p.ratio !== null && p.ratio >= low && p.ratio < (RATIOS[i + 1] || [Infinity])[0]]),
  slope: () => {
    const edge = -Math.log(slope());
    return [["beyond the slope λ: the model produces it more than λ times as often as the data", "var(--m1)", p => p.ratio < edge],
      ["within the slope λ", "var(--m6)", p => p.ratio >= edge, true]];
  },
  cluster: points => [...new Set(points.map(p => p.cluster))].sort((a, b) => a - b).map(c => ["cluster " + (c + 1), color(c), p => p.cluster === c]),
};
const COLORINGS = {side: "real or fake", ratio: "density ratio", slope: "beyond λ", cluster: "cluster"};

function drawMap() {
  const m = chosen();
  $("map-box").hidden = !m.map;
  if (!m.map) { mapped = null; return; }
  const points = pointsOf(m), height = Math.max(160, m.map.size[1] * (MAP - 2 * EDGE) / 1000 + 2 * EDGE);
  const sampled = ["real", "fake"].filter(side => m.map[side].n > m.map[side].id.length).map(side => `${m.map[side].id.length.toLocaleString("en-US")} of ${m.map[side].n.toLocaleString("en-US")} ${side} samples`);
  $("map-about").textContent = `First two principal axes of the data, which explain ${percent(m.map.explained[0])} and ${percent(m.map.explained[1])} of its variance.`
    + (sampled.length ? ` Shown: ${sampled.join(" and ")}, drawn at random.` : "") + " Samples that are far apart here are far apart in the features; the reverse need not hold.";
  const available = Object.keys(COLORINGS).filter(kind => kind === "side" || points.some(p => p[kind === "cluster" ? "cluster" : "ratio"] !== null));
  if (!available.includes(mapColor)) mapColor = "side";
  $("map-colors").replaceChildren(...available.map(kind => el("button", {type: "button", "aria-pressed": String(kind === mapColor), "data-color": kind,
    onclick() { mapColor = kind; drawMap(); $("map-colors").querySelector(`[data-color=${kind}]`).focus(); }}, COLORINGS[kind])));
  const root = svg("svg", {viewBox: `0 0 ${MAP} ${height.toFixed(0)}`, role: "img", "aria-label": `Map of the samples of ${m.name} and of the data, coloured by ${COLORINGS[mapColor]}`});
  $("map").replaceChildren(root);
  mapped = {points, root, height, model: m, ids: new Map(points.map(p => [`${p.side}:${p.id}`, p])), rings: svg("g")};
  drawLayers();
  hoverMap(tooltip($("map"), MAP, height));
  mapSearch($("search").value.trim().toLowerCase());
}
function drawLayers() {
  if (!mapped) return;
  const layers = LAYERS[mapColor](mapped.points, mapped.model).map(([name, mark, holds, faint]) => ({name, mark, faint, points: mapped.points.filter(holds)}));
  mapped.root.replaceChildren(...layers.map(({name, mark, faint, points}) => svg("path", {mark, class: faint ? "points faint" : "points", "data-layer": name, "data-count": points.length,
    d: points.map(p => `M${p.x.toFixed(1)} ${p.y.toFixed(1)}h0`).join("")})), mapped.rings);
  const keyed = layers.length <= 10 ? layers : [];
  $("map-key").replaceChildren(...keyed.map(({name, mark, points}) => el("span", {}, swatch(mark), `${name} (${points.length.toLocaleString("en-US")})`)));
}
function hoverMap(tip) {
  const shows = new Map();
  for (const [gallery, side, other] of [["missed", "real", "fake"], ["invented", "fake", "real"], ["copies", "fake", "real"]])
    for (const s of mapped.model[gallery] || []) { shows.set(`${side}:${s.sample.id}`, s.sample); if (s.nearest) shows.set(`${other}:${s.nearest.id}`, s.nearest); }
  const nearest = event => {
    const [x, y] = pointer(event, mapped.root, MAP, mapped.height);
    const best = mapped.points.reduce((near, p) => { const d = Math.hypot(p.x - x, p.y - y); return d < near.d ? {d, p} : near; }, {d: 14, p: null});
    return best.p;
  };
  mapped.root.addEventListener("pointermove", event => {
    const p = nearest(event);
    if (!p) { tip.hide(); return ring([]); }
    const sample = shows.get(`${p.side}:${p.id}`), text = sample && (sample.text || (sample.row && sample.row.map(cell => cell.join(": ")).join(", ")));
    tip.show([`${p.side} · ${p.id}`, ...(p.ratio === null ? [] : [`data / model ${number(Math.exp(p.ratio))}`]),
      ...(sample && sample.image ? [el("img", {src: sample.image, alt: ""})] : text ? [text.slice(0, 160)] : [])], [p.x, p.y]);
    ring([p]);
  });
  mapped.root.addEventListener("pointerleave", () => { tip.hide(); ring([]); });
  mapped.root.addEventListener("click", event => {
    const p = nearest(event), node = p && [...document.querySelectorAll(".card[data-ids]")].find(card => JSON.parse(card.dataset.ids).includes(`${p.side}:${p.id}`));
    if (node) node.focus();
  });
}
const ring = points => mapped && mapped.rings.replaceChildren(...points.map(p => svg("circle", {cx: p.x, cy: p.y, r: 7, class: "ring"})));
// show where samples lie, given as "side:id"
const point = ids => mapped && ring(ids.map(id => mapped.ids.get(id)).filter(Boolean));
function mapSearch(wanted) {
  const hits = mapped && wanted ? mapped.points.filter(p => p.id.toLowerCase().includes(wanted)) : [];
  ring(hits.slice(0, 200));
  return hits.length;
}
