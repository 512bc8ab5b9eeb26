// ---------------------------------------------------------------------------------------------- galleries
const chosen = () => byName.get($("model").value);

// words of `text`, with those that are not in a longest common subsequence with `other` marked
function differing(text, other) {
  const a = text.split(/(\s+)/), b = other.split(/(\s+)/), table = a.map(() => new Uint16Array(b.length + 1)).concat([new Uint16Array(b.length + 1)]);
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) table[i][j] = a[i] === b[j] ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
  const parts = [];
  for (let i = 0, j = 0; i < a.length;) {
    if (j < b.length && a[i] === b[j]) { parts.push(a[i++]); j++; }
    else if (j < b.length && table[i][j + 1] > table[i + 1][j]) j++;
    else { parts.push(a[i].trim() ? el("mark", {}, a[i]) : a[i]); i++; }
  }
  return parts;
}

function look({sample, side}, other) {
  if (sample.image) return el("div", {}, el("img", {src: sample.image, alt: `${side} sample ${sample.id}`, title: `${side}: ${sample.id}`}), el("div", {class: "side"}, side));
  const text = sample.text || sample.id;
  return el("div", {}, el("div", {class: "side"}, side), el("div", {class: "text"}, ...(other && other.sample.text ? differing(text, other.sample.text) : [text])));
}
// the rows of a table under each other, one column each, with the cells that differ marked
function rowTable(looks) {
  const columns = looks[0].sample.row.map(([column]) => column);
  const cells = looks.map(({sample}) => new Map(sample.row));
  return el("table", {class: "rows"}, el("thead", {}, el("tr", {}, el("th", {scope: "col"}, "column"), ...looks.map(({side}) => el("th", {scope: "col"}, side)))),
    el("tbody", {}, ...columns.map(column => {
      const values = cells.map(row => row.get(column) ?? "–"), differs = values.some(value => value !== values[0]);
      return el("tr", {}, el("th", {scope: "row"}, column), ...values.map(value => el("td", {}, differs && looks.length === 2 ? el("mark", {}, value) : value)));
    })));
}
function pair(looks) {
  if (looks.every(({sample}) => sample.row)) return rowTable(looks);
  return el("div", {class: "pair"}, ...looks.map((one, i) => look(one, looks.length === 2 ? looks[1 - i] : null)));
}
// whether nothing but the position of a sample is known, as of rows of features
const isBare = ({sample}) => !sample.image && !sample.row && (!sample.text || sample.text === sample.id);
// the id, and the columns in which a row of a table differs most from its nearest one
const captioned = entry => entry.sample.id + (entry.nearest && isBare(entry) ? " · nearest " + entry.nearest.id : "")
  + (entry.differs && entry.differs.length ? " · differs in " + entry.differs.slice(0, 3).map(one => one.column).join(", ") : "");
const sided = (entry, side, other) => [{sample: entry.sample, side}, ...(entry.nearest ? [{sample: entry.nearest, side: other}] : [])];

function card(looks, caption, ...more) {
  const ids = looks.map(({sample, side}) => `${side}:${sample.id}`);
  return el("button", {type: "button", class: "card", "data-ids": JSON.stringify(ids), onclick() { enlarge(this, looks, caption); },
    onmouseenter: () => point(ids), onfocus: () => point(ids), onmouseleave: () => point([]), onblur: () => point([]),
  }, looks.every(isBare) ? null : pair(looks), el("div", {class: "soft caption"}, caption), ...more);
}
let enlarged = null;  // the card whose samples are shown large
function enlarge(card, looks, caption) {
  const box = $("larger");
  enlarged = card;
  box.replaceChildren(el("form", {method: "dialog"}, el("button", {}, "Close")), pair(looks), el("p", {}, caption),
    ...looks.map(({sample, side}) => el("p", {class: "soft"}, `${side}: ${sample.id}`)));
  box.onclick = event => event.target === box && box.close();
  if (!box.open) box.showModal();
  box.querySelector("button").focus();
}
// arrow keys move between the cards of a gallery, and between samples that are shown large
const visibleCards = gallery => [...gallery.querySelectorAll(".card")].filter(card => !card.hidden);
function neighborCard(card, key) {
  const cards = visibleCards(card.closest(".gallery")), at = cards.indexOf(card), columns = cards.filter(other => other.offsetTop === cards[0].offsetTop).length;
  const step = {ArrowLeft: -1, ArrowRight: 1, ArrowUp: -columns, ArrowDown: columns}[key];
  return key === "Home" ? cards[0] : key === "End" ? cards[cards.length - 1] : step ? cards[at + step] : undefined;
}
function galleryKey(event) {
  const card = event.target.closest(".card"), next = card && neighborCard(card, event.key);
  if (next) { next.focus(); event.preventDefault(); }
}
function largerKey(event) {
  const next = ["ArrowLeft", "ArrowRight"].includes(event.key) && enlarged && enlarged.isConnected && neighborCard(enlarged, event.key);
  if (next) { next.click(); event.preventDefault(); }
}

function fill(id, cards, wide) {
  const rest = cards.slice(wide ? 6 : 8);  // cards of texts and rows are large
  rest.forEach(node => { node.hidden = true; });
  const more = el("button", {type: "button", class: "more no-print", onclick() { rest.forEach(node => { node.hidden = false; }); rest[0].focus(); more.remove(); }}, `Show all ${cards.length}`);
  $(id).replaceChildren(...cards, ...(rest.length ? [more] : []));
  $(id).classList.toggle("wide", wide);
  $(id + "-box").hidden = !cards.length;
}
function drawSamples() {
  const m = chosen(), pictures = [...(m.missed || []), ...(m.invented || []), ...(m.copies || [])].some(s => s.sample.image);
  const bare = [...(m.missed || []), ...(m.invented || []), ...(m.copies || [])].every(isBare);
  const wide = !pictures && !bare && !(m.mosaic || []).some(c => c.samples.some(s => s.image));
  $("model-printed").textContent = "Model: " + m.name;
  fill("missed", (m.missed || []).map(s => card(sided(s, "real", "fake"), captioned(s))), wide);
  fill("invented", (m.invented || []).map(s => card(sided(s, "fake", "real"), captioned(s))), wide);
  drawCopies(m, wide);
  const top = Math.max(...(m.mosaic || []).flatMap(c => [c.real, c.fake]), 1e-9);
  const bar = (share, side, mark) => el("div", {class: "bar " + side, mark, share: 100 * share / top + "%"});
  fill("mosaic", (m.mosaic || []).map(c => card(c.samples.map(s => ({sample: s, side: s.side || "sample"})), `real ${percent(c.real)} · fake ${percent(c.fake)}`,
    el("div", {class: "bars"}, bar(c.real, "real", "var(--real)"), bar(c.fake, "fake", colorOf(m.name))))), wide);
  $("mosaic-key").replaceChildren(el("span", {}, swatch("var(--real)"), "real"), el("span", {}, swatch(colorOf(m.name)), "fake"));
}
function drawCopies(m, wide) {
  const copies = m.scores.copies;
  fill("copies", copies && copies.value > 0 ? (m.copies || []).map(s => card(sided(s, "fake", "real"), `${s.sample.id} · distance ratio ${number(s.ratio)}`)) : [], wide);
  $("copies-box").hidden = !copies;
  const near = "to a real sample than half that sample’s distance to its nearest real neighbour";
  $("copies-share").textContent = !copies ? "" : (copies.value > 0 ? `${percent(copies.value)} of the fakes are closer ${near}` : `No fake is closer ${near}`)
    + (copies.chance === null ? "." : `; for fresh data it would be ${percent(copies.chance)}.`);
}

function drawDetail() {
  const m = chosen(), square = {xLabel: "recall β", yLabel: "precision α", top: 1};
  drawDrift(m);
  drawSamples();
  drawMap();
  $("budget").replaceChildren();
  $("groups").replaceChildren();
  lines($("budget"), "budget", (m.budgets || []).map(b => ({name: "K = " + b.budget, x: b.beta, y: b.alpha})), {...square, title: `${m.name}: curve with K draws per kept sample`});
  lines($("groups"), "groups", (m.groups || []).map(g => ({name: g.name, x: g.beta, y: g.alpha})), {...square, title: `${m.name}: one curve per group`});
  if ((m.groups || []).length) {
    const columns = [...COLUMNS.values()].filter(c => ["precision", "recall", "invented", "missed"].includes(c.key)), rows = m.groups.map(g => ({name: g.name, cells: columns.map(c => scoreCell(g.scores[c.key], c))}));
    $("groups").append(el("table", {class: "scores", role: "table"}, ...scoreTable(columns, rows, "Scores by group", "Group")));
  }
  $("budget-box").hidden = !(m.budgets || []).length;
  $("groups-box").hidden = !(m.groups || []).length && !m.fairness;
  $("groups-about").textContent = m.fairness || "";
  $("prompts").replaceChildren(...(m.prompts || []).map(p => el("li", {}, el("b", {}, p.prompt), el("ul", {}, ...p.answers.map(text => el("li", {}, text))))));
  $("prompts-box").hidden = !(m.prompts || []).length;
  search();
}

function search() {
  const wanted = $("search").value.trim().toLowerCase(), cards = [...document.querySelectorAll(".card[data-ids]")];
  const hits = wanted ? cards.filter(node => node.textContent.toLowerCase().includes(wanted) || node.dataset.ids.toLowerCase().includes(wanted)) : [];
  cards.forEach(node => node.classList.toggle("found", hits.includes(node)));
  hits.forEach(node => { node.hidden = false; });
  const points = mapSearch(wanted);
  $("found").textContent = !wanted ? "" : `${hits.length} in the galleries, ${points} on the map`;
}
