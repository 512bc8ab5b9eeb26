"""Small reports of every kind of samples, opened in a browser."""

import csv
import json
import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from precall.encoders import Encoder
from precall.metrics.assessing.assessment import assess
from precall.metrics.assessing.prepared import real_against_real
from precall.metrics.inputs.features import Pair
from precall.metrics.inputs.sides import Side
from precall.metrics.protocols.stability import score_trends
from precall.metrics.protocols.tradeoff import Tradeoff, named
from precall.metrics.scores.gates import Gate
from precall.metrics.scores.record import Trend
from precall.metrics.scores.results import Comparison
from precall.report import folder
from precall.report.galleries import galleries
from precall.report.projection import MOST
from precall.samples import open_samples
from precall.samples.sampleset import SampleWarning

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
    return Comparison(
        {name: replace(one, baseline=halves, stability=_trends(one)) for name, one in found.items()}, gates
    )


def _trends(one):
    """Scores against k; against n they are made up, because these samples are too few."""
    pair = Pair(*(one.sources[side].features for side in ("real", "fake")))
    rising = (0.5, 0.9) if one.name == "drops" else (0.6, 0.7)
    made_up = {"precision": (0.6, 0.7), "recall": rising, "fid": (None, 1.5)}
    return score_trends(pair, k=5, ties="closed", seed=0) | {"n": Trend((30, 60), (30, 60), made_up)}


def _texts(_):
    """One model of texts, in two groups; its samples contain markup."""
    rng = np.random.default_rng(0)
    words = ["the", "a", "cat", "dog", "sat", "on", "mat", "house", "tree", "under", "over", "blue", "red", "green"]

    def written(n, known):
        return [" ".join(rng.choice(words[:known], size=rng.integers(5, 30))) for _ in range(n)]

    fake = [f"<img src=x onerror=alert({i})> {text}" for i, text in enumerate(written(110, 9))]
    groups = {"real": ["x", "y"] * 55, "fake": {"hostile <b>": ["x", "y"] * 55}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SampleWarning)  # the markup makes the fakes longer
        return assess(
            real=written(110, 14), fake={"hostile <b>": fake}, metrics=METRICS, encoder="ngrams", groups=groups
        )


def _table(directory):
    """Four models of a table with numbers, categories and a long column name; the ages of one are wrong."""
    rng = np.random.default_rng(0)
    header = ["age", "monthly_income_before_taxes", "job", "city"]
    jobs, cities = ["nurse", "teacher", "software engineer"], ["Paris", "London"]
    for name, spread in {"real": 0.5, "a": 0.5, "b": 0.2, "c": 0.9, "d": 0.4}.items():
        rows = [
            [
                int(rng.normal(85 if name == "c" else 40, 10)),
                round(rng.lognormal(8, spread), 2),
                rng.choice(jobs),
                rng.choice(cities),
            ]
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


def _two_encoders(_):
    """Two models, of which each is the better one for an encoder that sees a single colour."""
    rng = np.random.default_rng(1)
    real, red, blue = (rng.integers(0, 256, (120, 4, 4, 3), dtype=np.uint8) for _ in range(3))
    red[..., 0] //= 3
    blue[..., 2] //= 3
    encoders = [
        Encoder(name, "images", {"channel": i}, lambda image, i=i: image[..., i].ravel() / 255, np.stack)
        for name, i in (("sees-red", 0), ("sees-blue", 2))
    ]
    return assess(real=real, fake={"red": red, "blue": blue}, metrics=("neighbors", "fid"), encoder=encoders)


def _tradeoff(_):
    """Two models, one of them at two settings of a knob."""
    rng = np.random.default_rng(0)
    names, settings = named({"a model": {0.5: 0.5, 1.0: 1.0}, "another one": {1.0: 1.5}})
    fakes = {name: spread * rng.normal(size=(100, 3)) for name, spread in names.items()}
    found = assess(real=rng.normal(size=(100, 3)), fake=fakes, metrics=("linear", "neighbors"))
    return Tradeoff(found.assessments, settings=settings)


def _groups(_):
    """Two models in three groups: one differs in one group, and the other lacks it."""
    rng = np.random.default_rng(0)
    labels = np.array(["young", "old", "a group with a rather long name, as they are"] * 50)
    unfair = rng.normal(size=(150, 3)) + 3 * (labels == "old")[:, None]
    lacking = labels[labels != "old"]
    fakes = {"unfair": unfair, "lacks a group": rng.normal(size=(len(lacking), 3))}
    groups = {"real": labels.tolist(), "fake": {"unfair": labels.tolist(), "lacks a group": lacking.tolist()}}
    return assess(real=rng.normal(size=(150, 3)), fake=fakes, metrics=("linear", "neighbors"), groups=groups)


def _prompts(_):
    """Two models of answers to prompts: one answers each, the other answers another prompt."""
    rng = np.random.default_rng(0)
    words = [f"{one} {other}" for one in ("red", "blue", "old", "tiny") for other in ("cat", "house", "river", "song")]
    asked = [f"Write a line about a {words[i % 16]}, in the style of poem number {i // 16}." for i in range(80)]

    def answered(subjects):
        ends = rng.choice(["in the morning", "at night", "by the sea", "of long ago", "again"], size=(80, 2))
        return [f"The {words[i % 16]} {a} and {b}, {i}." for i, (a, b) in zip(subjects, ends, strict=True)]

    fakes = {"answers": answered(range(80)), "answers another prompt": answered(rng.permutation(80))}
    prompts = {"real": asked, "fake": dict.fromkeys(fakes, asked)}
    metrics = ("linear", "c2st", "prompts")
    return assess(real=answered(range(80)), fake=fakes, prompts=prompts, metrics=metrics, encoder="ngrams")


MAKERS = {
    "groups": _groups,
    "prompts": _prompts,
    "tradeoff": _tradeoff,
    "two encoders": _two_encoders,
    "images": _images,
    "texts": _texts,
    "table": _table,
    "features": _features,
}


def photographs(rng, n):
    """Pictures that compress as badly as photographs: smooth shades with noise."""
    shade = np.linspace(0, 150, 96)[None, :, None, None] * rng.random((n, 1, 1, 3))
    return (shade + rng.normal(40, 12, (n, 96, 96, 3)).clip(0, 100)).astype(np.uint8)


@pytest.fixture(scope="session")
def pictured():
    """One model of photographs, some of which it copies."""
    rng = np.random.default_rng(0)
    real, fake = photographs(rng, 60), photographs(rng, 60) // 2
    fake[:5] = real[:5]
    sides = (Side(one.mean(axis=(1, 2)) / 255, open_samples(one), np.arange(60)) for one in (real, fake))
    return assess(**dict(zip(("real", "fake"), sides, strict=True)), metrics=("linear", "neighbors", "copies"))


@pytest.fixture(scope="session")
def large(pictured):
    """Ten models whose pages are as full as those of 50,000 photographs: nothing is computed from these."""
    rng = np.random.default_rng(0)
    shown, n = galleries(pictured), MOST
    points = {
        "n": 50_000, "x": rng.integers(0, 1000, n).tolist(), "y": rng.integers(0, 1000, n).tolist(),
        "ratio": np.round(rng.normal(size=n), 2).tolist(), "cluster": rng.integers(0, 20, n).tolist(),
        "group": rng.integers(0, 10, n).tolist(),
        "id": [f"a/folder/with/a/long/name/photograph_{i:06d}.jpeg" for i in range(n)],
    }  # fmt: skip
    cells = [{"real": 0.05, "fake": 0.05, "samples": [entry["sample"] for entry in shown["missed"][:4]]}] * 20
    drawn = {"explained": [0.5, 0.2], "size": [1000, 1000], "groups": [f"group {i}" for i in range(10)]}
    full = {**shown, "mosaic": cells, "map": {**drawn, "real": points, "fake": points}}
    sizes = replace(pictured.record, n_real=50_000, n_fake=50_000)
    one = replace(pictured, galleries=full, record=sizes, stability=_trends(pictured))
    return Comparison({f"model {i}": replace(one, name=f"model {i}") for i in range(10)}, (Gate("recall", "min", 0.5),))


def repeated(found, count):
    """A comparison of this many models: the first ones, or all of them repeated under other names."""
    models = [replace(one, galleries=galleries(one)) for one in found.values()]  # computed once
    named = {f"{models[i % len(models)].name} {i}": models[i % len(models)] for i in range(count)}
    return replace(found, assessments={name: replace(one, name=name) for name, one in named.items()})


@pytest.fixture(scope="session")
def made(tmp_path_factory):
    """A function that returns a report: its comparison, its page, and its numbers from the JSON.

    "images" is the report of that kind; "images × 10" has ten models.
    """
    known = {}

    def report(kind):
        if kind not in known:
            base, _, count = kind.partition(" × ")
            directory = tmp_path_factory.mktemp(base)
            found = repeated(report(base).found, int(count)) if count else MAKERS[kind](directory)
            with pytest.MonkeyPatch.context() as patch:
                if count:  # the curves are drawn for the kind itself
                    patch.setattr(folder.figures, "picture", lambda *_, **__: b"")
                path = folder.write(found, directory / "report", command="precall assess …")
            numbers = json.loads((directory / "report" / "results.json").read_text())
            known[kind] = SimpleNamespace(kind=kind, found=found, path=path, numbers=numbers)
        return known[kind]

    return report


@pytest.fixture(scope="session")
def axe(browser):
    """A function that runs axe-core on a page and returns what it found."""
    from axe_playwright_python.sync_playwright import Axe

    brief = {"resultTypes": ["violations"]}  # to list every node that passes takes as long as to check it
    return lambda page, options: Axe().run(page, options={**brief, **options}).response


@pytest.fixture(scope="session")
def tabs():
    """Pages that no test uses now: one that exists opens a file in half the time that a new one takes."""
    return []


@pytest.fixture
def opened(browser, tabs, made):
    """A function that opens the report of one kind. Console messages and requests to the network fail the test."""
    troubles, pages = [], []
    heard = {
        "console": lambda message: troubles.append(message.text),
        "pageerror": lambda error: troubles.append(str(error)),
        "request": lambda r: None if r.url.startswith(("file:", "data:")) else troubles.append(r.url),
    }

    def open_report(kind, width=1280, scheme="light", height=900):
        page, address = tabs.pop() if tabs else browser.new_page(), made(kind).path.as_uri()
        pages.append(page)
        if page.url.startswith(address):  # it would be opened where it was left
            page.goto("about:blank")
        page.mouse.move(0, 0)
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(media="null", color_scheme=scheme)
        for event, hear in heard.items():
            page.on(event, hear)
        page.goto(address)
        return page

    yield open_report
    for page in pages:
        for event, hear in heard.items():
            page.remove_listener(event, hear)
    tabs.extend(pages)
    assert troubles == []
