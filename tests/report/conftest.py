"""Small reports of every kind of samples, and the browser that opens them."""

import csv
import json
import os
import shutil
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from precall.metrics.assessment import assess
from precall.metrics.baseline import real_against_real
from precall.metrics.gates import Gate
from precall.metrics.inputs import Side
from precall.metrics.results import Comparison
from precall.report import folder
from precall.samples import open_samples

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
QUIET = ("--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-sync")
METRICS = ("linear", "clusters", "neighbors", "copies", "fid", "kid", "c2st")
LONG = "a rather long model name, number {}, with a long tail"


def _images(_):
    """Four models of tiny pictures: one drops half of them, one invents, one copies."""
    rng = np.random.default_rng(0)

    def pictured(pictures):
        return Side(pictures.reshape(len(pictures), -1) / 255, open_samples(pictures), np.arange(len(pictures)))

    def draw(n, low, high):
        level = rng.integers(0, 2, (n, 1, 1)) * 100 + 20
        return (level + rng.integers(low, high, (n, 4, 4))).astype(np.uint8)

    real, dropped, invented = draw(120, 0, 60), draw(240, 0, 60), draw(120, 0, 60)
    dropped = dropped[dropped.mean(axis=(1, 2)) < 100][:100]
    invented[:48] = rng.integers(200, 255, (48, 4, 4))
    models = {"drops": dropped, "invents": invented, "same": draw(120, 0, 60), "copies": real.copy()}
    found = assess(real=pictured(real), fake={name: pictured(one) for name, one in models.items()}, metrics=METRICS)
    halves = real_against_real(found["same"].sources["real"].features, k=5, ties="closed", seed=0)
    gates = (Gate("recall", "min", 0.8), Gate("fid", "max", 0.1))
    return Comparison({name: replace(one, baseline=halves) for name, one in found.items()}, gates)


def _texts(_):
    """One model of texts, in two groups; its samples contain markup."""
    rng = np.random.default_rng(0)
    words = ["the", "a", "cat", "dog", "sat", "on", "mat", "house", "tree", "under", "over", "blue", "red", "green"]

    def written(n, known):
        return [" ".join(rng.choice(words[:known], size=rng.integers(5, 30))) for _ in range(n)]

    fake = [f"<img src=x onerror=alert({i})> {text}" for i, text in enumerate(written(110, 9))]
    groups = {"real": ["x", "y"] * 55, "fake": {"hostile <b>": ["x", "y"] * 55}}
    return assess(real=written(110, 14), fake={"hostile <b>": fake}, metrics=METRICS, encoder="ngrams", groups=groups)


def _table(directory):
    """Four models of a table with numbers, categories and a long column name."""
    rng = np.random.default_rng(0)
    header = ["age", "monthly_income_before_taxes", "job", "city"]
    jobs, cities = ["nurse", "teacher", "software engineer"], ["Paris", "London"]
    for name, spread in {"real": 0.5, "a": 0.5, "b": 0.2, "c": 0.9, "d": 0.4}.items():
        rows = [
            [int(rng.normal(40, 10)), round(rng.lognormal(8, spread), 2), rng.choice(jobs), rng.choice(cities)]
            for _ in range(90)
        ]
        with open(directory / f"{name}.csv", "w", newline="") as file:
            csv.writer(file).writerows([header, *rows])
    models = {f"model {name}": str(directory / f"{name}.csv") for name in "abcd"}
    return assess(real=str(directory / "real.csv"), fake=models, metrics=METRICS, show_rows=True)


def _features(_):
    """Ten models with long names and large features: three assessments, repeated under other names."""
    rng = np.random.default_rng(0)
    fakes = {LONG.format(i): 1000 * (0.5 + 0.5 * i) * rng.normal(size=(100, 3)) + 300 * i for i in range(3)}
    found = list(assess(real=1000 * rng.normal(size=(100, 3)), fake=fakes, metrics=METRICS).values())
    ten = {LONG.format(i): replace(found[i % 3], name=LONG.format(i)) for i in range(10)}
    return Comparison(ten)


MAKERS = {"images": _images, "texts": _texts, "table": _table, "features": _features}


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A function that returns the report of one kind: its comparison, its page, and its numbers from the JSON."""
    known = {}

    def report(kind):
        if kind not in known:
            directory = tmp_path_factory.mktemp(kind)
            found = MAKERS[kind](directory)
            path = folder.write(found, directory / "report", command="precall assess …")
            numbers = json.loads((directory / "report" / "results.json").read_text())
            known[kind] = SimpleNamespace(kind=kind, found=found, path=path, numbers=numbers)
        return known[kind]

    return report


@pytest.fixture(scope="session")
def browser():
    """Chromium. Without it the tests are skipped, except in CI, where they fail."""
    give_up = pytest.fail if os.environ.get("CI") else pytest.skip
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        give_up("playwright is missing: the dev extra installs it")
    if CHROMIUM is None:
        give_up("no Chromium found: `apt-get install chromium` installs it")
    with sync_playwright() as p:
        started = p.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield started
        started.close()


@pytest.fixture
def opened(browser, made):
    """A function that opens the report of one kind. Console messages and requests to the network fail the test."""
    troubles, pages = [], []

    def open_report(kind, width=1280, scheme="light"):
        page = browser.new_page(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page.on("console", lambda message: troubles.append(message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", lambda r: None if r.url.startswith(("file:", "data:")) else troubles.append(r.url))
        page.goto(made(kind).path.as_uri())
        pages.append(page)
        return page

    yield open_report
    for page in pages:
        page.close()
    assert troubles == []
