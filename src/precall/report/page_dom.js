"use strict";
// Everything is built with createElement and textContent, so no string of the data is ever parsed as HTML.
const data = JSON.parse(document.getElementById("data").textContent);
const names = data.models.map(model => model.name);
const byName = new Map(data.models.map(model => [model.name, model]));
const $ = id => document.getElementById(id);
const color = i => `var(--m${i % 10})`;  // one colour per model; page.css defines them for both colour schemes
const colorOf = name => color(names.indexOf(name));
const DASHES = ["", "7 4", "2 3", "9 3 2 3"];  // a second cue, for print and for colour-blind readers
const dash = i => DASHES[i % DASHES.length];

function el(tag, attributes = {}, ...children) {
  const node = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "mark" || key === "share") node.style.setProperty("--" + key, value);
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.filter(child => child !== null && child !== undefined));
  return node;
}
function svg(tag, attributes = {}, text) {
  const node = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "mark") node.style.setProperty("--mark", value);
    else node.setAttribute(key, value);
  }
  if (text !== undefined) node.textContent = text;
  return node;
}
const swatch = mark => el("span", {class: "swatch", mark, "aria-hidden": "true"});
const counted = n => n.toLocaleString("en-US");

// a name of at most `longest` characters: what it shares with all other names is left out first, then its middle
const common = texts => { let n = 0; while (texts.length > 1 && n < texts[0].length && texts.every(t => t[n] === texts[0][n])) n++; return n; };
const PREFIX = common(names), SUFFIX = common(names.map(name => [...name.slice(PREFIX)].reverse().join("")));
function short(name, longest) {
  if (name.length <= longest) return name;
  const own = (PREFIX > 3 ? "…" + name.slice(PREFIX) : name), kept = SUFFIX > 3 ? own.slice(0, own.length - SUFFIX) + "…" : own;
  return kept.length <= longest ? kept : kept.slice(0, Math.ceil(longest / 2) - 1) + "…" + kept.slice(kept.length - Math.floor(longest / 2));
}

// ----------------------------------------------------------------------------------------------- numbers
const WORDS = {inf: "∞", "-inf": "−∞", nan: "undefined"};
const SUPER = {"-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹"};
const power = exponent => "10" + [...String(exponent)].map(c => SUPER[c]).join("");
const magnitude = x => x === 0 ? 0 : Math.floor(Math.log10(Math.abs(x)));
const minus = text => /^-0(\.0*)?$/.test(text) ? text.slice(1) : text.replace("-", "−");

// `x` with this many decimals; a negative number of decimals rounds to tens, hundreds, …
function decimals(x, digits) {
  const unit = Math.pow(10, -digits);
  const rounded = digits < 0 ? Math.round(x / unit) * unit : x;
  return minus(rounded.toLocaleString("en-US", {minimumFractionDigits: Math.max(0, digits), maximumFractionDigits: Math.max(0, digits)}));
}
function scientific(x, digits = 2) {
  const [mantissa, exponent] = x.toExponential(digits).split("e");
  return `${minus(mantissa)}\u00a0×\u00a0${power(Number(exponent))}`;
}
// one number format for the whole page: shares (`unit`) with three decimals, other numbers with as many digits as their
// uncertainty (`spread`) warrants, or with three
function number(x, spread, unit) {
  if (x === null || x === undefined) return "–";
  if (typeof x === "string") return WORDS[x] || x;
  if (unit) return decimals(x, 3);
  const top = Math.max(Math.abs(x), spread || 0);
  if (top < 1e-9) return "0";
  if (top >= 1e6 || top < 1e-3) return x === 0 ? "0" : scientific(x);
  const digits = spread ? 1 - magnitude(spread) : 2 - magnitude(x);
  return decimals(x, Math.max(-3, Math.min(4, digits)));
}
function spreadOf(score) {
  const ends = score.interval ? [score.interval.low, score.interval.high] : [];
  return ends.length && ends.every(Number.isFinite) && ends[1] > ends[0] ? (ends[1] - ends[0]) / 2 : undefined;
}
const intervalText = (score, unit) => `[${number(score.interval.low, spreadOf(score), unit)}, ${number(score.interval.high, spreadOf(score), unit)}]`;
// a share in per cent; the sign is tied to its number, so that it cannot wrap alone
const bare = share => share < 1e-9 ? "0" : share < 5e-4 ? "< 0.1" : decimals(100 * share, share < 0.0995 ? 1 : 0);
const percent = share => bare(share).replace(" ", "\u00a0") + "\u00a0%";
const tied = text => text.replace(/(\d) %/g, "$1\u00a0%").replace(/ = /g, "\u00a0=\u00a0");
const fixed = x => x === null || x === undefined ? "–" : decimals(x, 3);
