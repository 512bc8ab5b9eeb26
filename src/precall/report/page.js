// ------------------------------------------------------------------------------------------- putting it together
function drawExperts() {
  const frontiers = data.models.filter(m => m.frontier).map(m => ({name: m.name, mark: colorOf(m.name), x: m.frontier.recall, y: m.frontier.precision}));
  lines($("readings"), "frontier", frontiers, {xLabel: "recall exp(−D(R‖P))", yLabel: "precision exp(−D(R‖Q))", top: 1, title: "Exclusive Kullback-Leibler frontier"});
  lines($("readings"), "weights", data.weights || [], {log: true, xLabel: "slope λ", yLabel: "weight · λ", title: "Weight of each trade-off in a divergence (per log λ)"});
}

// a page that `precall report --serve` shows reloads when the results have changed
function watch(version) {
  setInterval(async () => {
    const answer = await fetch("version").catch(() => null);
    if (answer && answer.ok && (await answer.text()) !== version) location.reload();
  }, 2000);
}

function start() {
  drawFacts();
  drawGates();
  drawSummary();
  drawScores();
  if (data.models.some(m => m.curve)) {
    $("lam").addEventListener("input", () => { drawCurves(); drawAtSlope(); if (mapColor === "slope") drawLayers(); });
    redraw();
    drawExperts();
  } else $("trade-off").remove();
  drawDivergences();
  $("model").replaceChildren(...names.map(name => el("option", {value: name}, name)));
  $("model").addEventListener("change", drawDetail);
  $("search").addEventListener("input", search);
  const detailed = ["drift", "missed", "invented", "mosaic", "copies", "map", "groups", "budgets"];
  if (data.models.some(m => detailed.some(part => m[part] && (!Array.isArray(m[part]) || m[part].length)))) drawDetail();
  else $("detail").remove();
  if (data.version) watch(data.version);
}
start();
