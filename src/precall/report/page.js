// ------------------------------------------------------------------------------------------- putting it together
// paper has the first sections; with the button, everything: what is folded is opened for printing, and folded again
let folded = [];
function unfoldForPrint(printing) {
  if (printing && !folded.length && document.body.classList.contains("whole")) {
    folded = [...document.querySelectorAll("details:not([open]), .gallery .card[hidden]")];
    folded.forEach(node => node.matches("details") ? node.open = true : node.hidden = false);
  } else if (!printing) {
    folded.forEach(node => node.matches("details") ? node.open = false : node.hidden = true);
    folded = [];
  }
}
function watchPrint() {
  const printing = matchMedia("print");
  printing.addEventListener("change", () => unfoldForPrint(printing.matches));
  addEventListener("beforeprint", () => unfoldForPrint(true));
  addEventListener("afterprint", () => unfoldForPrint(false));
  if (printing.matches) unfoldForPrint(true);
  $("print-all").addEventListener("click", () => { document.body.classList.add("whole"); print(); document.body.classList.remove("whole"); });
}

// a page that `precall report --serve` shows reloads when the results have changed
function watch(version) {
  setInterval(async () => {
    const answer = await fetch("version").catch(() => null);
    if (answer && answer.ok && (await answer.text()) !== version) location.reload();
  }, 2000);
}

function start() {
  drawHead();
  drawFacts();
  drawGates();
  drawSummary();
  drawKnob();
  drawScores();
  startStability();
  if (data.models.some(m => m.curve)) {
    $("lam").addEventListener("input", () => { drawCurves(); drawAtSlope(); if (mapColor === "slope") drawLayers(); });
    redraw();
  } else $("trade-off").remove();
  $("model").replaceChildren(...names.map(name => el("option", {value: name}, name)));
  const telling = names.find(name => ["missed", "invented"].some(part => (byName.get(name)[part] || []).length));
  if (telling) $("model").value = telling;
  $("model").addEventListener("change", drawDetail);
  $("search").addEventListener("input", search);
  $("map-keys").addEventListener("keydown", mapKey);
  document.querySelectorAll(".gallery").forEach(gallery => gallery.addEventListener("keydown", galleryKey));
  $("larger").addEventListener("keydown", largerKey);
  $("larger").addEventListener("close", () => enlarged && enlarged.focus());
  const detailed = ["prompts", "drift", "missed", "invented", "mosaic", "copies", "map", "groups", "budgets"];
  if (data.models.some(m => detailed.some(part => m[part] && (!Array.isArray(m[part]) || m[part].length)))) drawDetail();
  else $("detail").remove();
  drawContents();
  watchPrint();
  if (data.version) watch(data.version);
}
start();
