"""The documentation site: it builds without a warning, needs no network, and has every public name and every metric."""

import importlib
import os
import re
import subprocess
from pathlib import Path

import pytest

import precall
from precall.metrics.assessing.registry import METRICS
from tools.cards import card_of

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
LINKED = re.compile(r"<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=[\"']?(https?:)?//", re.IGNORECASE)


@pytest.fixture(scope="module")
def site(tmp_path_factory, python):
    """The built site; a warning fails the build."""
    out = tmp_path_factory.mktemp("site")
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1", "http_proxy": "http://127.0.0.1:9"}
    command = [*python("lightning.fabric"), "-m", "mkdocs", "build", "--strict", "--site-dir", out]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=environment)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    return out


def public_names():
    """Each public name with the name by which it is imported."""
    rooms = [precall, *(importlib.import_module(f"precall.{room}") for room in ("metrics", "improve", "tune"))]
    rooms += [importlib.import_module(f"precall.{room}") for room in ("samples", "encoders")]
    return [f"{room.__name__}.{name}" for room in rooms for name in room.__all__]


@pytest.mark.smoke
def test_every_public_name_is_in_the_reference(site):
    shown = "".join(path.read_text() for path in (site / "reference").rglob("*.html"))
    text = re.sub(r"<[^>]+>", "", shown)
    assert [name for name in public_names() if not re.search(rf"{re.escape(name)}\b", text)] == []


@pytest.mark.smoke
def test_every_object_of_the_reference_has_its_docstring(site):
    """The page of `assess` shows its arguments and its example as code."""
    text = re.sub(r"<[^>]+>", "", (site / "reference" / "metrics" / "assessing.html").read_text())
    assert "Precision and recall of a model's samples against data" in text.replace("&#39;", "'")
    assert "&gt;&gt;&gt; report = assess(" in text


@pytest.mark.parametrize("name", METRICS)
def test_every_metric_has_a_complete_card(name):
    metric = METRICS[name]
    said = card_of(metric)
    text = (DOCS / "cards" / f"{name}.md").read_text()
    for part in ("$$", "- chance level: ", "- what changes the value: ", "**Limits.**", "**When it mis"):
        assert part in text, part
    assert ("**Cite.**" in text) is bool(said.papers)
    assert (DOCS / "cards" / f"{name}.svg").exists() is (said.figure != "none")
    assert f"](cards/{name}.md)" in (DOCS / "metrics.md").read_text()


@pytest.mark.smoke
def test_pages_load_nothing_from_the_network(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 50
    assert [page.name for page in pages if LINKED.search(page.read_text())] == []
    for style in site.rglob("*.css"):
        assert not re.search(r"(@import|url\()\s*[\"']?(https?:)?//", style.read_text()), style.name


@pytest.mark.smoke
def test_formulas_are_mathml(site):
    for page in site.rglob("*.html"):
        assert "arithmatex" not in page.read_text(), page.name
    assert (site / "theory.html").read_text().count("<math") > 200
    assert 'display="block"' in (site / "cards" / "fid.html").read_text()


@pytest.mark.smoke
def test_the_search_works_in_pages_that_are_opened_as_files(site, browser):
    """In Chromium, without a server. Nothing is requested from the network."""
    page, outside = browser.new_page(), []
    page.on("request", lambda one: None if one.url.startswith(("file:", "data:")) else outside.append(one.url))
    page.goto((site / "index.html").as_uri())
    page.click(".md-search__input")
    page.keyboard.type("memorized", delay=20)
    page.wait_for_selector(".md-search-result__item", timeout=120_000)
    assert outside == []
    page.close()


def test_pictures_are_small():
    pictures = [*(DOCS / "images").glob("*.png"), *(DOCS / "cards").glob("*.svg")]
    assert {"demo-1280.png", "demo-400.png"} <= {path.name for path in pictures}
    assert max(path.stat().st_size for path in pictures) <= 200_000


ARTICLE = re.compile(r"<article[^>]*>(.*)</article>", re.DOTALL)


def may_be_tall(path):
    """Whether a page has many pictures or much text: no text takes 0.5 pixels per byte, and no picture 1000."""
    article = ARTICLE.search(path.read_text())
    if article is None or path.name == "404.html":
        return True
    return 0.75 * len(article[1]) + 2000 * article[1].count("<img") > 12_000


@pytest.mark.smoke
def test_no_page_is_taller_than_twelve_thousand_pixels(site, browser):
    """Without JavaScript, which builds the index of the search anew on every page and changes no height."""
    tall, page = {}, browser.new_page(viewport={"width": 1280, "height": 900}, java_script_enabled=False)
    for path in filter(may_be_tall, sorted(site.rglob("*.html"))):
        page.goto(path.as_uri())
        height = page.evaluate("document.documentElement.scrollHeight")
        tall |= {path.name: height} if height > 12_000 else {}
    page.close()
    assert tall == {}
