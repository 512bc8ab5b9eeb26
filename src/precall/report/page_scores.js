// --------------------------------------------------------------------------- header, summary and tables
const ARROWS = {higher: ["↑", "higher is better"], lower: ["↓", "lower is better"]};

function drawFacts() {
  $("facts").replaceChildren(...data.facts.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value))));
  $("protocol").replaceChildren(...data.protocol.flatMap(([name, value]) => [el("dt", {}, name), el("dd", {}, value)]));
}

const COLUMNS = new Map(data.blocks.flatMap(block => block.columns.map(column => [column.key, column])));
const labelOf = key => COLUMNS.has(key) ? COLUMNS.get(key).label : key.replaceAll("_", " ");

function arrow(better) {
  return ARROWS[better] ? el("span", {class: "arrow", title: ARROWS[better][1], role: "img", "aria-label": ARROWS[better][1]}, ARROWS[better][0]) : null;
}

function drawSummary() {
  const {by, order, close} = data.ranking;
  const rule = {area: "Ranked by the area under the precision-recall curve; a model that copies the data comes last.", fid: `Ranked by ${labelOf("fid")}, because not every model has a curve; a model that copies the data comes last.`}[by] || "Not ranked: the models share no score to rank them by.";
  $("ranked-by").textContent = names.length < 2 ? "" : rule + (close.length ? " “≈” marks a model whose interval overlaps that of the model before it: their order is uncertain." : "");
  $("summary").replaceChildren(...order.map((name, i) => {
    const m = byName.get(name);
    const rank = names.length < 2 || !by ? "" : (close.includes(name) ? "≈" : "") + (i + 1);
    return el("li", {mark: colorOf(name), "data-model": name}, el("div", {class: "rank"}, rank),
      el("div", {}, el("div", {class: "model"}, name), el("p", {class: "verdict"}, tied(m.verdict)),
        el("p", {class: "soft recommendation"}, el("strong", {}, "Next: "), tied(m.recommendation))),
      el("dl", {class: "numbers"}, ...m.headline.map(key => headlineNumber(key, m.scores[key]))));
  }));
}
function headlineNumber(key, score) {
  const column = COLUMNS.get(key), share = column.unit;
  const interval = score.interval ? el("small", {}, share ? `${bare(score.interval.low)} to ${percent(score.interval.high)}` : intervalText(score)) : null;
  return el("div", {class: "number", "data-score": key}, el("dt", {title: column.meaning}, labelOf(key), arrow(column.better)),
    el("dd", {}, share ? percent(score.value) : number(score.value, spreadOf(score)), interval, score.chance === null ? null : el("small", {class: "chance", title: "expected of a model equal to the data"}, "chance " + (share ? percent(score.chance) : number(score.chance, spreadOf(score))))));
}

// the limits that were given, with the score of each model: met or not
function drawGates() {
  if (!data.gates.length) return $("gates-box").remove();
  const failed = data.gates.filter(gate => !gate.met).length;
  $("gates-met").textContent = failed ? `${failed} of ${data.gates.length} not met.` : data.gates.length > 1 ? `All ${data.gates.length} are met.` : "It is met.";
  const columns = ["score", "value", "limit", "result"].map(key => ({key, label: key}));
  const cell = (i, ...shown) => el("td", {role: "cell"}, el("span", {class: "narrow-label", "aria-hidden": "true"}, columns[i].label), ...shown);
  const limit = gate => `${gate.kind === "min" ? "at least" : "at most"} ${WORDS[gate.limit] || minus(String(gate.limit))}`;
  const cells = gate => [cell(0, el("span", {title: gate.column.meaning}, gate.column.label)), scoreCell(gate.found, {...gate.column, label: columns[1].label, better: null}), cell(2, el("span", {}, limit(gate))),
    cell(3, el("strong", {class: gate.met ? "pass" : "fail"}, gate.met ? "✓ pass" : "✗ fail"), gate.certain ? null : el("span", {class: "interval"}, "the interval includes the limit"))];
  $("gates").replaceChildren(...scoreTable(columns, data.gates.map(gate => ({name: gate.model, mark: colorOf(gate.model), cells: cells(gate), kind: gate.met ? "met" : "missed"})), "Gates"));
}

function scoreCell(score, column) {
  const label = el("span", {class: "narrow-label", "aria-hidden": "true"}, column.label, arrow(column.better));
  if (!score) return el("td", {role: "cell"}, label, "–");
  const spread = spreadOf(score);
  return el("td", {"data-score": column.key, role: "cell", class: column.unit ? "unit" : null}, label, el("span", {class: "value"}, number(score.value, spread, column.unit)),
    score.interval ? el("span", {class: "interval"}, intervalText(score, column.unit)) : null,
    score.chance !== null ? el("span", {class: "chance"}, "chance " + number(score.chance, spread, column.unit)) : null);
}
function scoreTable(columns, rows, caption, first = "Model") {
  const head = columns.map(c => el("th", {scope: "col", role: "columnheader", title: c.meaning}, c.label, arrow(c.better)));
  return [el("caption", {class: "hidden-caption"}, caption), el("thead", {}, el("tr", {role: "row"}, el("th", {scope: "col", role: "columnheader"}, first), ...head)),
    el("tbody", {}, ...rows.map(({name, mark, cells, kind}) => {
      const head = el("th", {scope: "row", role: "rowheader"}, mark ? swatch(mark) : null, name);
      return el("tr", {"data-model": name, role: "row", class: kind}, head, ...cells);
    }))];
}
function drawScores() {
  const cut = (list, size) => Array.from({length: Math.ceil(list.length / size)}, (_, i) => list.slice(i * size, i * size + size));
  const table = (columns, title) => el("table", {class: "scores", role: "table"}, ...scoreTable(columns,
    [...data.models.flatMap((m, i) => [m, ...m.encoders].map(one => ({name: one.name, mark: color(i), cells: columns.map(c => scoreCell(one.scores[c.key], c))}))), ...baselineRow(columns)], title));
  $("scores").replaceChildren(...data.blocks.flatMap(block => [el("h3", {}, block.title), el("p", {class: "soft"}, block.about),
    ...cut(block.columns, 6).map(columns => table(columns, block.title))]));
  const every = [...new Set(data.models.flatMap(m => Object.keys(m.scores)))].sort();
  $("all-scores").replaceChildren(...cut(every.map(key => ({key, label: labelOf(key), ...COLUMNS.get(key)})), 6).map(columns => table(columns, "All scores")));
}
function baselineRow(columns) {
  const baseline = data.baseline;
  if (!baseline || !columns.some(c => baseline.scores[c.key])) return [];
  return [{name: baseline.name, kind: "baseline", cells: columns.map(c => scoreCell(baseline.scores[c.key], c))}];
}

const DRIFT = 12;  // columns, and pairs of columns, that are listed
function drawDrift(m) {
  const listed = m.drift ? [...m.drift.columns.slice(0, DRIFT), ...m.drift.pairs.filter(one => one.differs).slice(0, DRIFT)] : [];
  const columns = [{key: "drift", label: "total variation", better: "lower", unit: true}, {key: "differs", label: "difference"}];
  const verdict = one => el("td", {role: "cell"}, el("span", {class: "narrow-label", "aria-hidden": "true"}, "difference"), el("span", {}, one.differs ? "clear" : "within chance"));
  const rows = listed.map(one => ({name: one.name, cells: [scoreCell(one, columns[0]), verdict(one)]}));
  $("drift").replaceChildren(...(rows.length ? [el("table", {class: "scores", role: "table"}, ...scoreTable(columns, rows, "Drift of columns and dependences", "Column"))] : []));
  $("drift-box").hidden = !listed.length;
}

function drawDivergences() {
  const rows = data.models.filter(m => m.divergences);
  if (!rows.length) return $("experts").remove();
  const columns = Object.keys(rows[0].divergences).map(key => ({key, label: key}));
  const cells = m => columns.map(c => el("td", {role: "cell"}, el("span", {class: "narrow-label", "aria-hidden": "true"}, c.label), el("span", {}, number(m.divergences[c.key] ?? "inf"))));
  $("divergences").setAttribute("role", "table");
  $("divergences").replaceChildren(...scoreTable(columns, rows.map(m => ({name: m.name, mark: colorOf(m.name), cells: cells(m)})), "Divergences of the curve"));
}
