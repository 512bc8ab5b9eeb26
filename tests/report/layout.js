// What a reader would call broken, as a list of sentences. It is evaluated in the page.
() => {
  const troubles = [];
  const once = answer => { const known = new Map(); return node => { if (!known.has(node)) known.set(node, answer(node)); return known.get(node); }; };
  const shown = once(node => node.checkVisibility({checkOpacity: true, checkVisibilityCSS: true}));
  const hidden = once(node => node instanceof Element && (getComputedStyle(node).clipPath === "inset(50%)" || node.tagName === "OPTION" || hidden(node.parentElement)));
  const name = node => `<${node.tagName.toLowerCase()}> "${node.textContent.trim().slice(0, 40)}"`;

  // colours
  const channels = text => { const c = text.match(/[\d.]+/g).map(Number); return c.length < 4 ? [...c, 1] : c; };
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4).reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const contrast = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
  const behind = once(node => { if (!node) return [255, 255, 255, 1]; const c = channels(getComputedStyle(node).backgroundColor); return c[3] > 0.99 ? c : behind(node.parentElement); });
  const cutting = once(node => { if (!node || node === document.body) return []; const cut = getComputedStyle(node).overflow !== "visible" && node.tagName !== "SELECT"; return [...(cut ? [{at: node, outer: node.getBoundingClientRect()}] : []), ...cutting(node.parentElement)]; });

  // texts: every line of every text node
  const lines = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let text = walker.nextNode(); text; text = walker.nextNode()) {
    const node = text.parentElement;
    if (!text.data.trim() || ["SCRIPT", "STYLE", "NOSCRIPT", "TITLE", "title"].includes(node.tagName) || !shown(node) || hidden(node)) continue;
    const range = document.createRange();
    range.selectNodeContents(text);
    const svg = node.closest("svg"), style = getComputedStyle(node);
    for (const box of range.getClientRects()) if (box.width > 0.5) lines.push({box, node});
    const ratio = contrast(channels(svg ? style.fill : style.color), behind(node));
    if (ratio < 4.5) troubles.push(`contrast ${ratio.toFixed(2)} of ${name(node)}`);
    if (parseFloat(style.fontSize) * (svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1) < 9) troubles.push(`tiny text ${name(node)}`);
    if (/^[\s]*%/.test(text.data)) troubles.push(`a lone per cent sign in ${name(node)}`);
  }
  const width = document.documentElement.clientWidth;
  if (document.documentElement.scrollWidth > width) troubles.push(`the page is ${document.documentElement.scrollWidth} px wide in a window of ${width} px`);
  for (const {box, node} of lines) {
    if (box.left < -1 || box.right > width + 1) troubles.push(`outside of the window: ${name(node)}`);
    for (const {at, outer} of cutting(node)) {
      if (box.left < outer.left - 1.5 || box.right > outer.right + 1.5 || box.top < outer.top - 3 || box.bottom > outer.bottom + 3) troubles.push(`clipped: ${name(node)} in ${name(at)}`);
    }
  }
  lines.sort((a, b) => a.box.top - b.box.top);
  lines.forEach((a, i) => {
    for (let j = i + 1; j < lines.length && lines[j].box.top < a.box.bottom; j++) {
      const b = lines[j], across = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left), down = Math.min(a.box.bottom, b.box.bottom) - b.box.top;
      if (a.node !== b.node && across > 1.5 && down > 4.5) troubles.push(`overlap: ${name(a.node)} and ${name(b.node)}`);
    }
  });

  // marks: bars, swatches, curves and points
  for (const mark of document.querySelectorAll(".bar, .swatch, svg .curve, svg .dot, svg .points")) {
    if (!shown(mark)) continue;
    const box = mark.getBoundingClientRect(), style = getComputedStyle(mark), stroked = mark.matches(".curve, .points");
    const paint = mark.closest("svg") ? (stroked ? style.stroke : style.fill) : style.backgroundColor;
    if (box.width < 1 && box.height < 1) troubles.push(`nothing to see of ${mark.outerHTML.slice(0, 80)}`);
    const ratio = paint.startsWith("rgb") && channels(paint)[3] > 0.5 ? contrast(channels(paint), behind(mark.parentElement)) : 1;
    if (ratio < 3) troubles.push(`contrast ${ratio.toFixed(2)} of ${mark.outerHTML.slice(0, 80)}`);
  }
  return [...new Set(troubles)];
}
