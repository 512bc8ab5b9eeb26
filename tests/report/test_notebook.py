"""What a notebook shows: curve, table and galleries, with every string escaped."""

import re
from dataclasses import replace

import numpy as np
import pytest
from PIL import Image

from precall.metrics.assessing.assessment import assess
from precall.metrics.scores.results import Comparison
from precall.report import folder

METRICS = ("linear", "neighbors", "copies", "fid")
HOSTILE = "<script>alert(1)</script>"


def pictures(directory, top):
    directory.mkdir()
    rng = np.random.default_rng(top)
    for i in range(60):
        Image.fromarray(rng.integers(0, top, (8, 8, 3), dtype=np.uint8)).save(directory / f"{i:02}.png")
    return directory


@pytest.fixture
def pictured(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    return assess(real=pictures(tmp_path / "real", 250), fake=pictures(tmp_path / "fake", 60), metrics=METRICS)


def test_pictures_of_missed_and_invented_samples_follow_the_table(pictured):
    html = pictured._repr_html_()
    table, curve, missed, invented = (html.index(text) for text in ("<pre", "<img", "Missed:", "Invented:"))
    assert table < html.index(str(pictured.verdict)[:20]) < curve < missed < invented
    assert len(re.findall(r'alt="real: \d\d.png"', html[missed:invented])) == 6
    assert len(re.findall(r'alt="fake: \d\d.png"', html[missed:invented])) == 6
    assert "map" not in html
    assert len(html) < 200_000


def test_saved_results_show_the_same_samples(pictured, tmp_path):
    folder.write(Comparison({"fake": pictured}), tmp_path / "report")
    shown = folder.load(tmp_path / "report")._repr_html_()
    assert shown.partition("<details")[2] == pictured._repr_html_().partition("<details")[2] != ""


def test_samples_that_are_gone_cost_the_gallery_and_not_the_table(pictured, tmp_path):
    for path in (tmp_path / "real").iterdir():
        path.unlink()
    html = pictured._repr_html_()
    assert "<pre" in html
    assert "Missed:" not in html


def test_texts_are_escaped_and_many_models_folded():
    rng = np.random.default_rng(0)
    texts = [f"{HOSTILE} {' '.join(rng.choice(list(words), 9))}" for words in ("abcd", "cdef") for _ in range(60)]
    one = assess(real=texts[:60], fake=texts[60:], metrics=METRICS, encoder="ngrams")
    html = Comparison({f"{HOSTILE} {i}": replace(one, name=str(i)) for i in range(6)})._repr_html_()
    assert "<script" not in html
    assert html.count("<details><summary>Samples of &lt;script&gt;") == 4
    assert "&lt;script&gt;alert(1)&lt;/script&gt; " in html.partition("Invented:")[2]


def test_features_alone_have_no_gallery():
    x = np.random.default_rng(0).normal(size=(60, 2))
    assert "<details" not in assess(real=x, fake=x + 1, metrics=METRICS)._repr_html_()


def test_rows_of_a_table_stay_hidden_unless_they_may_be_shown(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("real", "fake"):
        rows = "\n".join(f"{rng.normal():.3f},secret{rng.integers(5)}" for _ in range(80))
        (tmp_path / f"{name}.csv").write_text("number,word\n" + rows)
    paths = {"real": str(tmp_path / "real.csv"), "fake": str(tmp_path / "fake.csv")}
    assert "secret" not in assess(**paths, metrics=METRICS)._repr_html_()
    assert "word: secret" in assess(**paths, metrics=METRICS, show_rows=True)._repr_html_()
