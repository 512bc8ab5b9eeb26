// --------------------------------------------------------------------------- header, summary and tables
const ARROWS = {higher: ["↑", "higher is better"], lower: ["↓", "lower is better"]};

// words that the page explains where they are first used, and in a list at its end
const TERMS = {
  "precision": "how much of what the model produces is like the data", "recall": "how much of the data the model produces", "invented": "the share of the model’s samples that it produces more than three times as often as the data",
  "missed": "the share of the data that the model produces less than a third as often", "chance": "what a model equal to the data would be expected to get with as many samples",
  "total variation": "the share of the model’s samples that would have to move to equal the data", "two-sample test": "asks whether a classifier can tell the model’s samples from the data; a small p-value means that it can",
  "p": "how often a model equal to the data would differ as much by chance", "auto": "the default estimate of the curve, from several classifiers", "λ": "the trade-off: a large λ asks for precision, a small λ for recall", "F8": "one number for recall, read off the curve",
  "F1/8": "one number for precision, read off the curve", "FID": "Fréchet distance: one number for the whole difference; 0 is best, and its scale depends on the encoder", "k": "the number of neighbours that define a sample’s surroundings", "K": "samples drawn for each one that is kept",
};
const TERM = new RegExp(`(?<![\\p{L}\\d/])(${Object.keys(TERMS).sort((a, b) => b.length - a.length).join("|")})(?![\\p{L}\\d/])`, "u");
function explained(text) {
  const at = text.match(TERM);
  return at ? [text.slice(0, at.index), el("abbr", {title: TERMS[at[0]]}, at[0]), ...explained(text.slice(at.index + at[0].length))] : [text];
}
// a sentence whose commands and names in backticks become code
const worded = text => tied(text).split("`").flatMap((part, i) => i % 2 ? [el("code", {}, part)] : explained(part));

function drawHead() {
  document.title = data.title;
  $("title").textContent = data.title;
  $("about").textContent = data.about;
  $("findings").textContent = tied(data.findings);
  $("terms").replaceChildren(...Object.entries(TERMS).flatMap(([name, meaning]) => [el("dt", {}, name), el("dd", {}, meaning)]));
}
// the contents: one link per section, of which the one that is read is marked
function drawContents() {
  const sections = [...document.querySelectorAll("[data-nav]")], links = sections.map(one => el("a", {href: "#" + one.id}, one.dataset.nav));
  $("contents").replaceChildren(...links);
  const follow = () => {
    const read = sections.findLastIndex(one => one.getBoundingClientRect().top < innerHeight / 3);
    links.forEach((link, i) => i === Math.max(0, read) ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current"));
  };
  addEventListener("scroll", follow, {passive: true});
  follow();
}

function drawFacts() {
  $("facts").replaceChildren(...data.settings.map(sentence => el("p", {}, tied(sentence))));
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
      el("div", {}, el("div", {class: "model"}, name), m.alone ? el("p", {class: "alone"}, m.alone) : null, el("p", {class: "verdict"}, ...worded(m.verdict)),
        el("p", {class: "soft recommendation"}, el("strong", {}, "Next: "), ...worded(m.recommendation))),
      el("dl", {class: "numbers"}, ...m.headline.map(key => headlineNumber(key, m.scores[key]))),
      el("div", {class: "fews"}, ...FEW.map(([gallery, title]) => few(m, gallery, title)), clearest(m)));
  }));
}
const FEW = [["missed", "Missed, for example"], ["invented", "Invented, for example"]];
// three samples of a gallery, small
function few(m, gallery, title) {
  const shown = (m[gallery] || []).filter(s => s.sample.image || s.sample.row || (s.sample.text && s.sample.text !== s.sample.id)).slice(0, 3);
  const side = gallery === "missed" ? "real" : "fake", brief = text => text.length > 90 ? text.slice(0, 89) + "…" : text;
  const small = ({sample}) => sample.image ? el("img", {src: sample.image, alt: `${side} sample ${sample.id}`, title: sample.id}) : el("span", {class: "text"}, brief(sample.text || sample.row.map(([column, cell]) => `${column} ${cell}`).join(", ")));
  return shown.length ? el("div", {class: shown[0].sample.image ? "few" : "few long"}, el("div", {class: "side"}, `${title} (${side}):`), el("div", {class: shown[0].sample.image ? "thumbs" : "lines"}, ...shown.map(small))) : null;
}
const cellText = c => `${c.label}: real ${percent(c.real)}, fake ${percent(c.fake)}`;
const clearCells = cells => cells.filter(c => c.clear).sort((a, b) => Math.abs(b.real - b.fake) - Math.abs(a.real - a.fake)).map(cellText);
// the columns of a table that differ most, each with the value or range that does
function clearest(m) {
  const clear = m.drift ? [...m.drift.columns, ...m.drift.pairs].filter(one => one.differs).slice(0, 3) : [];
  return clear.length ? el("p", {class: "few long soft"}, el("strong", {}, "Differs most: "), clear.map(one => [one.name, ...clearCells(one.histogram || []).slice(0, 1)].join(", ")).join("; ")) : null;
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
  const limit = gate => `${gate.kind === "min" ? "at least" : "at most"} ${WORDS[gate.limit] || minus(String(gate.limit))}`;
  const cells = gate => [cell(columns[0].label, el("span", {title: gate.column.meaning}, gate.column.label)), scoreCell(gate.found, {...gate.column, label: columns[1].label, better: null}), cell(columns[2].label, el("span", {}, limit(gate))),
    cell(columns[3].label, el("strong", {class: gate.met ? "pass" : "fail"}, gate.met ? "✓ pass" : "✗ fail"), gate.certain ? null : el("span", {class: "interval"}, "the interval includes the limit"))];
  $("gates").replaceChildren(...scoreTable(columns, data.gates.map(gate => ({name: gate.model, mark: colorOf(gate.model), cells: cells(gate), kind: gate.met ? "met" : "missed"})), "Gates"));
}

// a cell with the name of its column, which a narrow screen shows
function cell(label, ...shown) {
  return el("td", {role: "cell"}, el("span", {class: "narrow-label", "aria-hidden": "true"}, ...[label].flat()), ...shown);
}
function scoreCell(score, column) {
  const label = [column.label, arrow(column.better)].filter(Boolean);
  if (!score) return cell(label, "–");
  const spread = spreadOf(score), made = cell(label, el("span", {class: "value"}, number(score.value, spread, column.unit)),
    score.interval ? el("span", {class: "interval"}, intervalText(score, column.unit)) : null,
    score.chance !== null ? el("span", {class: "chance"}, "chance " + number(score.chance, spread, column.unit)) : null);
  made.dataset.score = column.key;
  made.classList.toggle("unit", Boolean(column.unit));
  return made;
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

// the shares of real and fake rows per value or range of a column, and in words where they differ clearly
function histogram({name, histogram: cells}, mark) {
  const top = Math.max(...cells.flatMap(c => [c.real, c.fake])), step = 160 / cells.length;
  const root = svg("svg", {viewBox: "0 0 160 44", role: "img", "aria-label": `Histogram of ${name}: ${cells.map(cellText).join("; ")}`, class: "histogram"});
  const bar = (c, i, side) => { const height = 42 * c[side] / top, one = svg("rect", {x: i * step + (side === "real" ? 0 : 0.42 * step), y: 43 - height, width: 0.4 * step, height: height + 1, class: "share", mark: side === "real" ? "var(--real)" : mark}); one.append(svg("title", {}, cellText(c))); return one; };
  root.append(...cells.flatMap((c, i) => ["real", "fake"].map(side => bar(c, i, side))));
  return el("div", {}, root, ...clearCells(cells).slice(0, 3).map(text => el("div", {}, text)));
}

const DRIFT = 12;  // columns, and pairs of columns, that are listed
function drawDrift(m) {
  const listed = m.drift ? [...m.drift.columns.slice(0, DRIFT), ...m.drift.pairs.filter(one => one.differs).slice(0, DRIFT)] : [];
  const columns = [{key: "drift", label: "total variation", better: "lower", unit: true}, {key: "differs", label: "difference"}];
  columns.push({key: "where", label: "real and fake rows by value"});
  const where = one => { const made = cell(columns[2].label, one.histogram ? histogram(one, colorOf(m.name)) : "–"); made.className = "where"; return made; };
  const verdict = one => cell("difference", el("span", {}, one.differs ? "clear" : "within chance"));
  const rows = listed.map(one => ({name: one.name + (one.rows ? ` (of ${counted(one.rows)} rows)` : ""), cells: [scoreCell(one, columns[0]), verdict(one), where(one)]}));
  $("drift").replaceChildren(...(rows.length ? [el("table", {class: "scores", role: "table"}, ...scoreTable(columns, rows, "Drift of columns and dependences", "Column"))] : []));
  $("drift-box").hidden = !listed.length;
}
