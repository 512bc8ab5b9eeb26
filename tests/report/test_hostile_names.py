"""Hostile names of models and samples stay text on the page, in a real browser."""

import os
from dataclasses import replace

from benchmarks.attacks.playground import HOSTILE
from precall.metrics.assessing.assessment import assess
from precall.metrics.scores.results import Comparison

CODE = (
    "</script><script>window.harmed = 1</script>", "<img src=x onerror='window.harmed = 1'>", "<!--<script>",
    "javascript:window.harmed=1", '" onmouseover="window.harmed=1', "{{7*7}}", "\u2028window.harmed=1//", "]]>",
    "__proto__", "constructor",
)  # fmt: skip


def test_hostile_names_stay_text(browser, tmp_path):
    names = [*CODE, *(os.fsdecode(name) for name in HOSTILE)]
    texts = [f"the cat {i} sat {name!a}" for i, name in enumerate(names * 2)]
    one = assess(real=texts, fake=texts[3:], metrics=("clusters",), encoder="ngrams")
    found = Comparison({name: replace(one, name=name) for name in names})
    path = found.to_html(tmp_path / "report.html")
    page, troubles = browser.new_page(), []
    page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.on("dialog", lambda dialog: troubles.append(dialog.message))
    page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else troubles.append(r.url))
    page.goto(path.as_uri())
    for at in range(len(names)):
        page.locator("#model").select_option(index=at)
        page.locator("#legend button").nth(at).hover()
    assert page.evaluate("window.harmed") is None
    assert page.locator("img[src=x]").count() == 0
    shown = page.locator("#summary").inner_text()
    assert all(name in shown for name in CODE if name.isprintable())
    assert page.locator("#summary > li").count() == len(names)
    page.close()
    assert troubles == []
