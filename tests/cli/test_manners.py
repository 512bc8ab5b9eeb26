"""Manners of the command line: version, quiet, BibTeX, gates, progress rows, and one format per column."""

import re

import numpy as np
import pytest
from typer.testing import CliRunner

import precall
from precall import improve
from precall.cli import app
from precall.cli.results_cache import naming
from precall.metrics.scores.score import Interval, Score
from precall.report.table import most_decimals
from precall.theory.spectrum import RatioSpectrum


@pytest.fixture
def files(tmp_path, monkeypatch):
    rng = np.random.default_rng(0)
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    np.save("real.npy", rng.normal(size=(80, 2)))
    np.save("a.npy", rng.normal(size=(80, 2)) * 0.8)
    np.save("b.npy", rng.normal(size=(80, 2)) + 3)


def run(*words):
    return CliRunner().invoke(app, list(map(str, words)))


def assess(*words, metrics="neighbors,fid"):
    return run("assess", "--real", "real.npy", "--fake", "a.npy", "--metrics", metrics, *words)


def test_version():
    done = run("--version")
    assert (done.exit_code, done.stdout) == (0, f"precall {precall.__version__}\n")


@pytest.mark.parametrize("quiet", [("--quiet", "assess"), ("assess", "--quiet")])
def test_quiet_prints_results_and_errors_only(files, quiet):
    words = ("--real", "real.npy", "--fake", "a.npy", "--metrics", "fid")
    run("assess", *words)
    loud, silent = run("assess", *words, "--out", "one"), run(*quiet, *words, "--out", "two")
    assert "results from the cache" in loud.stderr
    assert "page: one" in loud.stderr
    assert silent.stderr == ""
    assert silent.stdout == loud.stdout
    assert "gate not met" in run(*quiet, *words, "--max-fid", 0).stderr
    assert "precall: " in run(*quiet, "--real", "absent.npy", *words[2:]).stderr


def test_quiet_says_nothing_about_the_columns_of_a_table(files, tmp_path):
    for name in ("real", "fake"):
        (tmp_path / f"{name}.csv").write_text("x,y\n" + "".join(f"{i % 7},{i % 5}\n" for i in range(60)))
    words = ("assess", "--real", "real.csv", "--fake", "fake.csv", "--metrics", "fid")
    assert "columns: x" in run(*words).stderr
    assert run(*words, "--quiet").stderr == ""


def test_bibtex_has_an_entry_for_every_paper():
    entries = run("cite", "--bibtex").stdout.split("\n\n")
    keys = [re.match(r"@(\w+)\{([a-z0-9]+),", entry)[2] for entry in entries]
    assert len(set(keys)) == len(keys)
    assert {"precall", "sajjadi2018", "kynkaanniemi2019", "lopezpaz2017"} <= set(keys)
    listed = " ".join(run("cite").stdout.split())
    for entry in entries[1:]:
        known = dict(re.findall(r"(\w+) = \{+(.*?)\}+,", entry))
        assert f"({known['year']}), {known['title']}" in listed
        assert entry.count("{") == entry.count("}")


@pytest.mark.parametrize(
    ("option", "limit", "said"),
    [
        ("--min-precision", 1.2, "expected a finite number between 0 and 1; got 1.2"),
        ("--min-recall", -0.1, "expected a finite number between 0 and 1; got -0.1"),
        ("--min-coverage", "nan", "expected a finite number between 0 and 1; got nan"),
        ("--max-fid", -1, "expected a finite number of at least 0; got -1"),
        ("--min-density", "inf", "expected a finite number of at least 0; got inf"),
        ("--min-area", 0.5, "add auto to --metrics, which computes area"),
        ("--fail-on", "drops,droops", "unknown kind 'droops'. The kinds are copies, drops, invents, far-from-the-data"),
    ],
)
def test_impossible_gates_are_refused_before_anything_is_computed(files, monkeypatch, option, limit, said):
    monkeypatch.setattr("precall.metrics.assessing.assessment.assess_each", lambda **_: pytest.fail("it was computed"))
    done = assess(option, limit)
    assert done.exit_code == 2
    assert said in " ".join(done.stderr.split())


def test_a_gate_needs_its_metric(files):
    done = assess("--min-recall", 0.5, metrics="fid")
    assert done.exit_code == 2
    assert "add neighbors to --metrics" in " ".join(done.stderr.split())
    assert assess("--min-area", 0, metrics="clusters").exit_code == 0
    done = run("assess", "--real", "real.npy", "--fake", "a.npy", "--preset", "prdc", "--max-fid", 20)
    assert done.exit_code == 2  # it was computed, and "Pass more samples" was the advice
    assert "add fid to --metrics" in " ".join(done.stderr.split())


@pytest.mark.parametrize(
    ("words", "kind", "needed"),
    [
        (("--metrics", "clusters,fid"), "copies", "copies to --metrics"),
        (("--metrics", "copies,fid"), "drops", "auto to --metrics"),
        (("--preset", "prdc"), "drops", "auto to --metrics"),
        (("--prompt", "question"), "copies", "copies to --metrics"),
        ((), "misaligned", "--prompt"),
        (("--metrics", "copies"), "copies", None),
        (("--metrics", "fid", "--holdout", "real.npy"), "copies", None),
        (("--metrics", "fid"), "mixed-storage", None),
    ],
)
def test_no_model_passes_because_nobody_looked(files, words, kind, needed):
    """`--metrics fid --fail-on drops,copies` had status 0 for every model."""
    done = run("assess", "--real", "real.npy", "--fake", "a.npy", *words, "--fail-on", kind)
    assert done.exit_code == (0 if needed is None else 2)
    assert needed is None or f"add {needed}" in " ".join(done.stderr.split())


def test_gates_on_the_cautious_end_of_the_interval(files):
    found = precall.assess(real=np.load("real.npy"), fake=np.load("a.npy"), metrics=("neighbors", "fid"))
    recall, fid = found.scores["recall"], found.scores["fid"]
    between = (recall.value + recall.interval.low) / 2
    assert assess("--min-recall", between).exit_code == 0
    done = assess("--min-recall", between, "--gate", "lower")
    assert done.exit_code == 3
    assert "gate not met: a.npy has lower end of recall" in done.stderr
    assert assess("--min-recall", recall.interval.low - 1e-6, "--gate", "lower").exit_code == 0
    above = (fid.value + fid.interval.high) / 2
    assert assess("--max-fid", above).exit_code == 0
    assert "upper end of fid" in assess("--max-fid", above, "--gate", "lower").stderr


def test_progress_rows_name_the_model():
    said, finished = [], {}
    progress = naming(lambda stage, done, total: said.append(stage), ["a", "b"], finished)
    for stage in ("encode real", "real balls", "encode a", "auto"):
        progress(stage, 0, 1)
    finished["a"] = None
    progress("auto", 0, 1)
    assert said == ["encode real", "real balls", "encode a", "a: auto", "b: auto"]


def test_progress_rows_stop_when_the_next_stage_begins(monkeypatch):
    from rich import progress as rich_progress

    from precall.cli.console import bars

    made = []
    original = rich_progress.Progress.__init__

    def watched(self, *arguments, **options):
        original(self, *arguments, **options)
        made.append(self)

    monkeypatch.setattr(rich_progress.Progress, "__init__", watched)
    with bars() as progress:
        progress("clusters", 0, 1)  # it never says that it is done
        progress("a[b]: fid", 0, 1)
        assert [task.finished for task in made[0].tasks] == [True, False]


def test_a_column_has_one_number_format():
    scores = [Score(0.5, Interval(0.4, 0.6, 0.95, "")), None, Score(0.25, Interval(0.249, 0.251, 0.95, ""))]
    decimals = most_decimals(scores)
    assert [one and one.text(decimals) for one in scores] == ["0.500 [0.400, 0.600]", None, "0.250 [0.249, 0.251]"]


def test_copies_are_shown_when_they_are_requested():
    x = np.random.default_rng(0).normal(size=(2, 60, 2))
    found = precall.assess(real=x[0], fake=x[1], metrics=("neighbors", "copies"))
    assert ["precision", "recall", "density", "coverage", "copies"] in [
        line.split() for line in repr(found).splitlines()
    ]
    plain = precall.assess(real=x[0], fake=x[1], metrics="quick")
    assert "copies" not in repr(plain)


def test_a_plan_from_samples_is_that_of_their_assessment():
    x = np.random.default_rng(0).normal(size=(2, 100, 2))
    report = precall.assess(real=x[0], fake=x[1] + 1, metrics=("auto",))
    assert improve.plan(real=x[0], fake=x[1] + 1).to_dict() == improve.plan(report).to_dict()


@pytest.mark.parametrize("given", [{}, {"real": np.zeros((60, 2))}, {"fake": np.zeros((60, 2))}])
def test_a_plan_needs_a_spectrum_or_both_sample_sets(given):
    with pytest.raises(ValueError, match="pass `spectrum`, or both `real` and `fake`"):
        improve.plan(**given)


def test_a_plan_takes_no_spectrum_beside_samples():
    spectrum = RatioSpectrum.from_masses(p=[0.5, 0.5], q=[0.4, 0.6])
    with pytest.raises(ValueError, match="got both"):
        improve.plan(spectrum, real=np.zeros((60, 2)), fake=np.zeros((60, 2)))


@pytest.mark.parametrize(
    ("generator", "said"),
    [
        (lambda n: np.zeros((n, 1)), r"function of \(n, rng\) that returns n samples; got one of \(n\)"),
        (lambda n, rng, labels: np.zeros((n, 1)), r"got one of \(n, rng, labels\)"),
        (np.zeros((5, 1)), "got ndarray"),
    ],
)
def test_a_generator_with_another_signature_is_refused(generator, said):
    with pytest.raises(ValueError, match=said):
        improve.sample(generator, lambda x: x[:, 0], budget=2, n=5)


def test_a_network_with_another_signature_is_refused_by_the_trainer():
    from torch import nn

    from precall.tune.trainer import Trainer

    class Unlabelled(nn.Module):
        latent_shape, classes = (2,), 0

        def forward(self, z):
            return z

    with pytest.raises(ValueError, match=r"`forward\(z, labels\)`; Unlabelled has forward\(z\)"):
        Trainer(Unlabelled(), nn.Linear(2, 1), None, np.zeros((9, 2)))
    with pytest.raises(ValueError, match="Linear has no `latent_shape`"):
        Trainer(nn.Linear(2, 2), nn.Linear(2, 1), None, np.zeros((9, 2)))


def test_a_smoke_test_of_the_attacks_leaves_the_published_rows_alone(monkeypatch):
    from benchmarks import attack

    seen = []
    monkeypatch.setattr(attack, "attacked", lambda options: seen.append(options.out) or [])
    for words in (["--smoke"], ["--count", "1"]):
        with pytest.raises(SystemExit):
            attack.main(words)
    assert seen == [None, attack.PUBLISHED]
