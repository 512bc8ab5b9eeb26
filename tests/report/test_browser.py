"""The page in a real browser: no console error, the slider and the toggles work, the numbers equal the JSON."""

import json
import shutil

import pytest

from precall.metrics.assessment import assess

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
playwright = pytest.importorskip("playwright.sync_api", reason="the dev extra installs playwright")
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium found: `apt-get install chromium` brings one")
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")


@pytest.fixture(scope="module")
def page_and_numbers(tmp_path_factory):
    texts = {
        "real": [f"the cat {i} sat" for i in range(60)],
        "fake": [f"<img src=x onerror=alert({i})>" for i in range(60)],
    }
    found = assess(
        real=texts["real"], fake={"hostile <b>": texts["fake"], "same": texts["real"][:50]},
        metrics=("linear", "clusters", "neighbors", "copies", "fid", "c2st"), encoder="ngrams",
    )  # fmt: skip
    path = found.to_html(tmp_path_factory.mktemp("page") / "report.html")
    return path, json.loads(json.dumps(found.to_dict()))


def test_a_person_can_use_the_page(page_and_numbers):
    path, numbers = page_and_numbers
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        page = browser.new_page()
        troubles = []
        page.on("console", lambda message: troubles.append(message.text) if message.type == "error" else None)
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else troubles.append(r.url))
        page.goto(path.as_uri())

        # the numbers on the page are those of the JSON
        for name, model in numbers["models"].items():
            row = page.locator(f'#scores tr[data-model="{name}"]')
            shown = row.locator('td[data-score="precision"]').inner_text().split()[0]
            assert float(shown) == pytest.approx(model["scores"]["precision"]["value"], abs=5e-3)
        headings = page.locator("#scores th").all_inner_texts()
        assert {"model", "precision ↑", "FID ↓"} <= set(headings)
        assert page.locator("#verdicts li").count() == 2
        assert "hostile <b>" in page.locator("#verdicts").inner_text()

        # the slider moves the slope, by keyboard too
        before = page.locator("#at-lam").inner_text()
        page.locator("#lam").focus()
        for _ in range(30):
            page.keyboard.press("ArrowRight")
        assert page.locator("#lam-value").inner_text() == "λ = 2.00"
        assert page.locator("#at-lam").inner_text() != before

        # the effect of a budget is drawn for every model
        assert page.locator('[data-chart="budget"]').count() == 2
        assert page.locator('[data-chart="frontier"]').count() == 1

        # a click hides a model's curve, a second click shows it again
        assert page.locator("#curve path.curve").count() == 2
        page.locator("#legend button").first.click()
        assert page.locator("#curve path.curve").count() == 1
        page.locator("#legend button").first.click()
        assert page.locator("#curve path.curve").count() == 2

        # galleries follow the chosen model, and hostile text stays text
        page.locator("#model").select_option("hostile <b>")
        assert "onerror=alert" in page.locator("#invented").inner_text()
        assert page.locator("img[src=x]").count() == 0
        page.locator("#model").select_option("same")
        copies, said = numbers["models"]["same"]["scores"]["copies"], page.locator("#copies-share").inner_text()
        assert copies["value"] > copies["chance"]
        assert said.startswith(f"{100 * copies['value']:.1f} % of the fakes")
        assert said.endswith(f"for fresh data it would be {100 * copies['chance']:.1f} %.")
        browser.close()
    assert troubles == []
