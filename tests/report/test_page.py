"""The page without a browser: it is self-contained, escaped, and contains the numbers of the assessment."""

import json
import os
import re
import sys
from dataclasses import replace

import matplotlib
import numpy as np
import pytest
from matplotlib.backends.backend_pgf import LatexManager
from typer.testing import CliRunner

from precall.cli import app
from precall.metrics.assessing.assessment import assess
from precall.metrics.inputs.sides import Side
from precall.metrics.scores.record import RunRecord
from precall.metrics.scores.results import Comparison
from precall.report import figures, folder, page
from precall.report.figures import literal, plot
from precall.samples import open_samples
from precall.theory.spectrum import RatioSpectrum

HOSTILE = "</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def compared():
    rng = np.random.default_rng(0)

    def pictured(scale):
        pictures = (rng.integers(0, 255, (100, 3, 3)) // scale).astype(np.uint8)
        return Side(pictures.reshape(100, 9) / 255, open_samples(pictures), np.arange(100))

    metrics = ("linear", "clusters", "neighbors", "copies", "fid", "c2st")
    labels = {"real": [0, 1] * 50, "fake": [0, 1] * 50}
    return assess(real=pictured(1), fake={HOSTILE: pictured(1), "half": pictured(2)}, metrics=metrics, groups=labels)


def data_of(html):
    return json.loads(re.search(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)[1])


def test_the_numbers_on_the_page_are_those_of_the_assessment(compared):
    data = data_of(page.render(compared))
    for model, one in zip(data["models"], compared.values(), strict=True):
        saved = one.to_dict()["scores"]
        for name, score in model["scores"].items():
            assert (score["value"], score["chance"]) == (saved[name]["value"], saved[name]["chance"])
            assert score["interval"] == {end: saved[name]["interval"][end] for end in ("low", "high")}
        assert model["verdict"] == one.verdict
        np.testing.assert_allclose(model["curve"]["alpha"], one.spectrum.alpha(np.array(model["curve"]["lam"])))


def test_a_hostile_name_stays_text(compared):
    html = page.render(compared)
    assert HOSTILE not in html
    assert html.count("<script") == 2
    assert data_of(html)["models"][0]["name"] == HOSTILE


def test_the_page_asks_the_network_for_nothing(compared):
    html = page.render(compared)
    assert "default-src 'none'" in html
    assert "unsafe" not in html.split("<style>")[0]
    assert not re.search(r'(src|href)="(https?:)?//', html)


def test_galleries_show_pictures_with_their_nearest_neighbours(compared):
    model = data_of(page.render(compared))["models"][1]
    for gallery in ("missed", "invented"):
        assert len(model[gallery]) == 16
        assert model[gallery][0]["sample"]["image"].startswith("data:image/png;base64,")
        assert model[gallery][0]["nearest"]["id"]
    assert sum(cell["real"] for cell in model["mosaic"]) == pytest.approx(1)
    assert sum(cell["fake"] for cell in model["mosaic"]) == pytest.approx(1)
    assert {group["name"] for group in model["groups"]} == {"0", "1"}


def test_every_model_has_its_groups(compared):
    for model, one in zip(data_of(page.render(compared))["models"], compared.values(), strict=True):
        assert len(model["groups"]) == 2
        for entry in model["groups"]:
            spectrum = one.groups[int(entry["name"])].spectrum
            np.testing.assert_allclose(entry["alpha"], spectrum.curve(101).alpha)
        clear = [gap for gap in (one.fairness.precision, one.fairness.recall) if gap.clear or gap.interval is None]
        assert all(f"{gap.value:.2f}" in model["fairness"] for gap in clear)
        assert clear or "by chance" in model["fairness"]


def test_saved_results_make_the_same_page(compared, tmp_path):
    """Through the files and back: nothing on the page needs the fresh assessment."""
    folder.write(compared, tmp_path, command="c")
    assert page.render(folder.load(tmp_path), command="c") == page.render(compared, command="c")
    (tmp_path / "galleries.json").unlink()
    without = data_of(page.render(folder.load(tmp_path)))["models"][1]
    assert "missed" not in without
    assert "map" not in without
    assert without["curve"]["alpha"]


def test_the_figure_shows_recall_to_the_right_and_precision_upwards():
    """A model with half of the data: every sample is good, and half of the data is missing."""
    spectrum = RatioSpectrum.from_masses(p=[0.5, 0.5], q=[0.0, 1.0])
    rng = np.random.default_rng(0)
    one = assess(real=rng.normal(size=(60, 2)), fake=rng.normal(size=(60, 2)), metrics=("clusters",))
    curves, points = plot(Comparison({"half": replace(one, spectra={"clusters": spectrum})})).axes
    (line,), (point,) = curves.get_lines(), points.get_lines()
    assert max(line.get_xdata()) < 0.51 < 0.99 < max(line.get_ydata())
    assert point.get_xdata()[0] < 0.6 < 0.9 < point.get_ydata()[0]


def test_missed_samples_are_those_with_the_highest_ratio(compared):
    one = compared["half"]
    shown = [int(entry["sample"]["id"]) for entry in data_of(page.render(compared))["models"][1]["missed"]]
    assert shown[0] == int(np.argmax(one.real.log_ratio))
    least = [int(entry["sample"]["id"]) for entry in data_of(page.render(compared))["models"][1]["invented"]]
    assert least[0] == int(np.argmin(one.fake.log_ratio))


def test_writing_makes_the_folder_and_leaves_no_part_behind(compared, tmp_path):
    written = compared.to_html(tmp_path / "deep" / "report.html")
    assert written.read_text().startswith("<!doctype html>")
    assert [path.name for path in written.parent.iterdir()] == ["report.html"]


def test_features_alone_give_a_page_with_a_map_but_without_galleries():
    rng = np.random.default_rng(1)
    one = assess(real=rng.normal(size=(80, 2)), fake=rng.normal(size=(80, 2)), metrics=("fid",))
    data = data_of(page.render(Comparison({"fake": one})))
    assert not {"missed", "invented", "mosaic", "curve"} & set(data["models"][0])
    assert len(data["models"][0]["map"]["fake"]["x"]) == 80
    assert data["ranking"]["by"] == "fid"


def test_every_setting_of_the_protocol_has_a_name(compared):
    named = [name for name, _ in data_of(page.render(compared, command="c"))["protocol"]]
    assert not [name for name in named if "_" in name]
    assert named[-1] == "command"


def test_nested_entries_of_the_protocol_have_lines_of_their_own(compared):
    (name, one), *_ = compared.items()
    columns = {"age_group": {"kind": "integer", "given": False}, "city": {"kind": "category", "cycles": []}}
    protocol = {
        **one.protocol,
        "real": {"encoder": "table", "protocol": {"columns": columns, "notes": ["One.", "Two."]}},
    }
    shown = dict(
        data_of(page.render(Comparison({name: replace(one, record=RunRecord.from_dict(protocol))})))["protocol"]
    )
    assert shown["encoding of the data"].splitlines() == [
        "encoder: table",
        "protocol",
        "  columns",
        "    age_group: kind integer, given no",
        "    city: kind category",
        "  notes: One. Two.",
    ]


@pytest.mark.usefixtures("drawn")
def test_figures_export(compared, tmp_path):
    figure = plot(compared)
    for kind in ("png", "svg"):
        figure.savefig(tmp_path / f"curves.{kind}", dpi=60)
        assert (tmp_path / f"curves.{kind}").stat().st_size > 1000
    assert figures.picture(compared, "png", dpi=60) == (tmp_path / "curves.png").read_bytes()
    labels = [line.get_label() for line in figure.axes[0].get_lines()]
    assert labels == list(compared)


def test_a_figure_for_a_paper_has_its_legend_outside_and_names_the_band(compared, tmp_path):
    figure = plot(compared, style="paper")
    figure.draw_without_rendering()
    (axes,), (legend,) = figure.axes, figure.legends
    assert not legend.get_window_extent().overlaps(axes.get_window_extent())
    labels = [text.get_text() for text in legend.get_texts()]
    assert labels[:-1] == [literal(name) for name in compared]
    assert "95% upper band" in labels[-1]
    assert figure.get_size_inches()[0] <= 3.5
    greys = [np.dot(matplotlib.colors.to_rgb(line.get_color()), (0.299, 0.587, 0.114)) for line in axes.get_lines()]
    assert np.diff(sorted(greys)).min() > 0.1
    with pytest.raises(ValueError, match="must be"):
        plot(compared, style="poster")


def test_a_figure_for_a_paper_is_written_by_the_command_line(compared, tmp_path, monkeypatch):
    folder.write(compared, tmp_path / "report")
    for name in ("curve.pdf", "curve.svg"):
        done = CliRunner().invoke(app, ["report", str(tmp_path / "report"), "--figure", str(tmp_path / name)])
        assert done.exit_code == 0, done.output
    assert (tmp_path / "curve.pdf").read_bytes().startswith(b"%PDF")
    assert "<svg" in (tmp_path / "curve.svg").read_text()
    monkeypatch.setattr("shutil.which", lambda name: None)
    pgf = CliRunner().invoke(app, ["report", str(tmp_path / "report"), "--figure", str(tmp_path / "curve.pgf")])
    assert pgf.exit_code == 1
    assert "needs LaTeX" in pgf.output


# LaTeX as matplotlib talks to it: it answers with the size of every text, and ends when it is told to
LATEX = """#!/bin/sh
while read -r line; do
  case "$line" in
    *pgf_backend_query_start*) printf '*pgf_backend_query_start\\n\\n*' ;;
    *typeout*) printf '\\n20.0pt,7.0pt,2.0pt\\n\\n*' ;;
    *@@end*) exit 0 ;;
  esac
done
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the stand-in for LaTeX is a shell script")
def test_a_figure_for_latex_has_curves_bands_and_no_commands_from_names(compared, tmp_path, monkeypatch):
    program = tmp_path / "bin" / "xelatex"
    program.parent.mkdir()
    program.write_text(LATEX)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}{os.pathsep}{os.environ['PATH']}")
    (_, one), *_ = compared.items()
    named = Comparison({r"\input{/etc/passwd} 100%": one, "b_c": one})
    try:
        text = figures.picture(named, "pgf", dpi=100, style="paper").decode()
    finally:
        LatexManager._get_cached_or_new_impl.cache_clear()  # ends the stand-in
    assert text.count(r"\pgfpathlineto") > 100
    assert "recall" in text
    assert r"\input{/etc" not in text
    assert {"-input-/etc/passwd- 100-", "b-c"} <= set(re.findall(r"\%}([^{}]+)}}%", text))
    assert "upper band" in text
