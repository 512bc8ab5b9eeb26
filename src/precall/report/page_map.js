// ------------------------------------------------------------------------------------------------ the map
const MAP = 720, EDGE = 14;
let mapColor = "side", mapped = null;
const RATIOS = [[-Infinity, "model over three times the data", "var(--m1)"], [-Math.log(3), "about equal", "var(--m6)"], [Math.log(3), "data over three times the model", "var(--m0)"]];

function pointsOf(m) {
  const of = (values, i) => values ? values[i] : null;
  const sides = ["real", "fake"].map(side => m.map[side].id.map((id, i) => ({
    id, side, x: m.map[side].x[i] * (MAP - 2 * EDGE) / 1000 + EDGE, y: (m.map.size[1] - m.map[side].y[i]) * (MAP - 2 * EDGE) / 1000 + EDGE,
    ratio: of(m.map[side].ratio, i), cluster: of(m.map[side].cluster, i), group: of(m.map[side].group, i),
  })));
  return sides.flat();
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
  group: (points, m) => m.map.groups.map((name, g) => [`group ${name}`, color(g), p => p.group === g]),
  cluster: points => [...new Set(points.map(p => p.cluster))].sort((a, b) => a - b).map(c => ["cluster " + (c + 1), color(c), p => p.cluster === c]),
};
const COLORINGS = {side: "real or fake", ratio: "density ratio", slope: "beyond λ", group: "group", cluster: "cluster"};
const NEEDED = {ratio: "ratio", slope: "ratio", group: "group", cluster: "cluster"};  // what a colouring needs to know of a sample

function drawMap() {
  const m = chosen();
  $("map-box").hidden = !m.map;
  if (!m.map) { mapped = null; return; }
  const wasChosen = mapped && mapped.model === m && mapped.chosen ? keyOf(mapped.chosen) : null;
  const points = pointsOf(m), height = Math.max(160, m.map.size[1] * (MAP - 2 * EDGE) / 1000 + 2 * EDGE);
  const sampled = ["real", "fake"].filter(side => m.map[side].n > m.map[side].id.length).map(side => `${counted(m.map[side].id.length)} of ${counted(m.map[side].n)} ${side} samples`);
  $("map-about").textContent = `First two principal axes of the data, which explain ${percent(m.map.explained[0])} and ${percent(m.map.explained[1])} of its variance.`
    + (sampled.length ? ` Shown: ${sampled.join(" and ")}, drawn at random.` : "") + " Samples that are far apart here are far apart in the features; the reverse need not hold.";
  const available = Object.keys(COLORINGS).filter(kind => kind === "side" || points.some(p => p[NEEDED[kind]] !== null));
  if (!available.includes(mapColor)) mapColor = "side";
  $("map-colors").replaceChildren(...available.map(kind => el("button", {type: "button", "aria-pressed": String(kind === mapColor), "data-color": kind,
    onclick() { mapColor = kind; drawMap(); $("map-colors").querySelector(`[data-color=${kind}]`).focus(); }}, COLORINGS[kind])));
  const root = svg("svg", {viewBox: `0 0 ${MAP} ${height.toFixed(0)}`, role: "img", "aria-label": `Map of the samples of ${m.name} and of the data, coloured by ${COLORINGS[mapColor]}`});
  $("map").replaceChildren(root);
  mapped = {points, root, height, model: m, ids: new Map(points.map(p => [keyOf(p), p])), rings: svg("g"), shows: shownSamples(m), tip: tooltip($("map"), MAP, height)};
  drawLayers();
  hoverMap();
  choose(mapped.ids.get(wasChosen) || null);
  mapSearch($("search").value.trim().toLowerCase());
}
function drawLayers() {
  if (!mapped) return;
  const layers = LAYERS[mapColor](mapped.points, mapped.model).map(([name, mark, holds, faint]) => ({name, mark, faint, points: mapped.points.filter(holds)}));
  mapped.root.replaceChildren(...layers.map(({name, mark, faint, points}) => svg("path", {mark, class: faint ? "points faint" : "points", "data-layer": name, "data-count": points.length,
    d: points.map(p => `M${p.x.toFixed(1)} ${p.y.toFixed(1)}h0`).join("")})), mapped.rings);
  const keyed = layers.length <= 10 ? layers : [];
  $("map-key").replaceChildren(...keyed.map(({name, mark, points}) => el("span", {}, swatch(mark), `${name} (${counted(points.length)})`)));
}
const keyOf = p => `${p.side}:${p.id}`;
// the samples that the galleries show, with their pictures, texts or rows
function shownSamples(m) {
  const shows = new Map();
  for (const [gallery, side, other] of [["missed", "real", "fake"], ["invented", "fake", "real"], ["copies", "fake", "real"]])
    for (const s of m[gallery] || []) { shows.set(`${side}:${s.sample.id}`, s.sample); if (s.nearest) shows.set(`${other}:${s.nearest.id}`, s.nearest); }
  for (const cell of m.mosaic || []) for (const s of cell.samples) if (s.side) shows.set(`${s.side}:${s.id}`, s);
  return shows;
}
// the picture or the beginning of the text of a sample, if a gallery has it
function preview(p) {
  const sample = mapped.shows.get(keyOf(p)), text = sample && (sample.text || (sample.row && sample.row.map(cell => cell.join(": ")).join(", ")));
  return sample && sample.image ? [el("img", {src: sample.image, alt: ""})] : text ? [text.slice(0, 160)] : [];
}
const facts = p => [...(p.ratio === null ? [] : [`data / model ${number(Math.exp(p.ratio))}`]), ...(p.group === null ? [] : [`group ${mapped.model.map.groups[p.group]}`]),
  ...(p.cluster === null ? [] : [`cluster ${p.cluster + 1}`])].join(" · ");
function showTip(p) {
  mapped.tip.show([`${p.side} · ${p.id}`, ...(facts(p) ? [facts(p)] : []), ...preview(p)], [p.x, p.y]);
}
// what is marked while nothing is pointed at: the chosen sample
function rest() {
  mapped.tip.hide();
  ring(mapped.chosen ? [mapped.chosen] : []);
}
const cardOf = p => [...document.querySelectorAll(".card[data-ids]")].find(card => JSON.parse(card.dataset.ids).includes(keyOf(p)));
function showCard(p) {
  const card = cardOf(p);
  if (card) { card.hidden = false; card.focus(); }
}
function choose(p) {
  mapped.chosen = p;
  const box = $("chosen-sample");
  box.hidden = !p;
  rest();
  if (!p) return box.replaceChildren();
  box.replaceChildren(el("div", {class: "chosen"}, ...preview(p), el("div", {}, el("strong", {}, `${p.side} · ${p.id}`), el("div", {class: "soft"}, facts(p)),
    cardOf(p) ? el("button", {type: "button", class: "more no-print", onclick: () => showCard(p)}, "Show in the galleries") : null)));
}
// the nearest point in a direction; what lies aside counts twice
function towards(from, [dx, dy]) {
  const cost = p => { const along = (p.x - from.x) * dx + (p.y - from.y) * dy, aside = Math.abs((p.x - from.x) * dy) + Math.abs((p.y - from.y) * dx); return along > 0.5 ? along + 2 * aside : Infinity; };
  return mapped.points.reduce((best, p) => { const c = cost(p); return c < best.c ? {c, p} : best; }, {c: Infinity, p: null}).p;
}
const ARROW_KEYS = {ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1]};
function mapKey(event) {
  if (!mapped) return;
  if (event.key === "Escape") choose(null);
  else if (event.key === "Enter" && mapped.chosen) showCard(mapped.chosen);
  else if (ARROW_KEYS[event.key]) {
    const middle = {x: MAP / 2, y: mapped.height / 2}, closest = () => mapped.points.reduce((a, b) => Math.hypot(a.x - middle.x, a.y - middle.y) <= Math.hypot(b.x - middle.x, b.y - middle.y) ? a : b);
    const next = mapped.chosen ? towards(mapped.chosen, ARROW_KEYS[event.key]) : closest();
    if (next) { choose(next); showTip(next); }
  } else return;
  event.preventDefault();
}
function hoverMap() {
  const nearest = event => {
    const [x, y] = pointer(event, mapped.root, MAP, mapped.height);
    const best = mapped.points.reduce((near, p) => { const d = Math.hypot(p.x - x, p.y - y); return d < near.d ? {d, p} : near; }, {d: 14, p: null});
    return best.p;
  };
  mapped.root.addEventListener("pointermove", event => {
    const p = nearest(event);
    if (!p) return rest();
    showTip(p);
    ring([p]);
  });
  mapped.root.addEventListener("pointerleave", rest);
  mapped.root.addEventListener("click", event => choose(nearest(event)));
}
const ring = points => mapped && mapped.rings.replaceChildren(...points.map(p => svg("circle", {cx: p.x, cy: p.y, r: 7, class: "ring"})));
// show where samples lie, given as "side:id"
const point = ids => mapped && (ids.length ? ring(ids.map(id => mapped.ids.get(id)).filter(Boolean)) : rest());
function mapSearch(wanted) {
  const hits = mapped && wanted ? mapped.points.filter(p => p.id.toLowerCase().includes(wanted)) : [];
  if (hits.length) ring(hits.slice(0, 200));
  else if (mapped) rest();
  return hits.length;
}
