"""The command line as a user types it."""

import json
import re
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from precall import load
from precall.cli import app
from precall.encoders import ENCODERS

QUICK = ["--metrics", "neighbors,clusters,fid"]


@pytest.fixture
def run(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    return lambda *words: CliRunner().invoke(app, [str(word) for word in words])


@pytest.fixture
def files(tmp_path):
    rng = np.random.default_rng(0)
    real = rng.normal(size=(120, 3))
    paths = {}
    for name, array in (("real", real), ("same", rng.normal(size=(110, 3))), ("far", real + 9)):
        paths[name] = tmp_path / f"{name}.npy"
        np.save(paths[name], array)
    return paths


@pytest.mark.parametrize("command", ["assess", "encode", "improve"])
def test_help_names_every_encoder_there_is_to_choose(run, command):
    page = re.sub(r"-\n\s+", "-", run(command, "--help").output)  # a name may be wrapped at its hyphen
    words = set(page.replace(",", " ").replace(".", " ").split())
    assert set(ENCODERS) - {"table", "identity"} <= words  # these two follow from the kind of samples


def test_two_files_one_answer(run, files):
    done = run("assess", "--real", files["real"], "--fake", files["same"], "--fake", f"away={files['far']}", *QUICK)
    assert done.exit_code == 0, done.output
    lines = done.stdout.splitlines()
    assert lines[0].startswith("encoder none (features were given), n = ")
    assert [line for line in lines if line in ("same.npy", "away")] == ["same.npy", "away"]
    heads = [line.split() for line in lines if "precision " in line]
    assert heads == [["precision", "recall", "density", "coverage", "fid", "area"]] * 2
    assert sum(line.startswith("  chance") for line in lines) == 2


def test_a_notice_names_its_model(run, files):
    rows = np.load(files["same"])
    np.save(files["same"], np.repeat(rows[:40], 3, axis=0))
    done = run("assess", "--real", files["real"], "--fake", f"ours={files['same']}", "--fake", files["far"], *QUICK)
    assert "ours: 120 of 120 samples repeat each other (40 different)" in " ".join(done.output.split())
    assert "far.npy: 1" not in done.output


def test_json_on_stdout_is_the_assessment(run, files):
    done = run("assess", "--real", files["real"], "--fake", f"away={files['far']}", *QUICK, "--json", "--seed", 7)
    found = json.loads(done.stdout)
    assert found["models"]["away"]["scores"]["precision"]["value"] == 0
    assert found["models"]["away"]["protocol"]["seed"] == 7
    assert found["command"].startswith("precall")


def test_out_writes_page_json_and_picture_that_report_reads_again(run, files, tmp_path):
    out = tmp_path / "new" / "report"
    done = run("assess", "--real", files["real"], "--fake", f"away={files['far']}", *QUICK, "--out", out)
    assert done.exit_code == 0, done.output
    written = {path.name for path in out.iterdir()}
    assert written == {"report.html", "results.json", "galleries.json", "curves.png"}
    again = run("report", out / "results.json", "--out", tmp_path / "curves.svg")
    assert again.exit_code == 0, again.output
    assert again.stdout == done.stdout  # the same table
    assert run("report", out).stdout == done.stdout  # and by its folder
    assert (tmp_path / "curves.svg").read_text().lstrip().startswith("<?xml")


def test_report_makes_the_same_page_again_galleries_and_all(run, tmp_path):
    (tmp_path / "real.txt").write_text("".join(f"the cat {i} sat\n" for i in range(60)))
    (tmp_path / "fake.txt").write_text("".join(f"<b>dog {i}</b>\n" for i in range(60)))
    words = ("--real", tmp_path / "real.txt", "--fake", tmp_path / "fake.txt", "--encoder", "ngrams")
    out = tmp_path / "out"
    done = run("assess", *words, "--metrics", "linear,clusters,neighbors,copies", "--out", out)
    assert done.exit_code == 0, done.output
    assert (out / "galleries.json").exists()
    assert run("report", out / "results.json", "--out", tmp_path / "again.html").exit_code == 0
    assert (tmp_path / "again.html").read_text() == (out / "report.html").read_text()
    # a second run into the same folder that shows only the map leaves no sample of the first
    assert run("assess", *words, "--metrics", "fid", "--out", out).exit_code == 0
    (shown,) = json.loads((out / "galleries.json").read_text()).values()
    assert list(shown) == ["map"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("no json", "must be a JSON object"),
        ('{"models": {}}', "with the key `schema`"),
        ("[]", "must be a JSON object"),
        ('{"schema": 3, "models": {"a": {"schema": 3}}}', "lacks `name`"),
        ('{"schema": 3, "models": {}}', "at least 1 entries"),
    ],
)
def test_report_of_something_else_costs_a_line(run, tmp_path, content, said):
    (tmp_path / "results.json").write_text(content)
    done = run("report", tmp_path / "results.json", "--out", tmp_path / "page.html")
    assert done.exit_code == 1
    assert said in done.output


@pytest.mark.parametrize("place", [".", "results.json"])
def test_report_of_nothing_costs_a_line(run, tmp_path, place):
    done = run("report", tmp_path / place)
    assert done.exit_code == 1
    assert f"there is no {tmp_path / 'results.json'}; `precall assess --out` writes one." in done.output


@pytest.mark.parametrize(
    ("gate", "status"),
    [(("--min-precision", 0.5), 3), (("--max-fid", 1), 3), (("--min-precision", 0), 0), (("--max-fid", 1e6), 0)],
)
def test_gates_decide_the_exit_status(run, files, gate, status):
    done = run("assess", "--real", files["real"], "--fake", files["far"], *QUICK, *gate)
    assert done.exit_code == status
    assert ("gate not met" in done.output) == (status == 3)


@pytest.mark.parametrize(("kinds", "status"), [("wrong-shape,far-from-the-data", 3), ("wrong-shape", 0)])
def test_a_kind_of_the_verdict_is_a_gate(run, files, kinds, status, tmp_path):
    out = tmp_path / "report"
    done = run("assess", "--real", files["real"], "--fake", files["far"], *QUICK, "--fail-on", kinds, "--out", out)
    assert done.exit_code == status
    assert ("far from the data, by its verdict" in done.output) == (status == 3)
    saved, (name,) = json.loads((out / "results.json").read_text()), load(out)
    assert saved["fail_on"] == {"kinds": kinds.replace("-", " ").split(","), "met": {name: status == 0}}
    assert load(out).fail_on == tuple(saved["fail_on"]["kinds"])


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        (("--real", "nowhere", "--fake", "nowhere"), 1, "must be a folder or file that exists"),
        (("--real", "{real}"), 2, "--fake"),
        (("--real", "{real}", "--fake", "{same}", "--rael", "x"), 2, "No such option"),
        (("--real", "{real}", "--fake", "{same}", "--metrics", "fdi"), 2, "got 'fdi'"),
        (("--real", "{real}", "--fake", "{same}", "--metrics", "recall"), 2, "a score of the metric 'neighbors'"),
        (("--real", "{real}", "--fake", "{same}", "--ties", "half"), 2, "half"),
        (("--real", "{real}", "--fake", "{same}", "--k", "500"), 1, "`k` must be a whole number"),
        (("--real", "{real}", "--fake", "{same}", "--fake", "{same}"), 2, "same name"),
        (("--real", "{real}", "--fake", "{same}", "--metrics", "fid", "--min-area", "1"), 2, "add auto to --metrics"),
    ],
)
def test_mistakes_cost_a_line_and_the_right_status(run, files, words, status, said):
    done = run("assess", *(word.format(**files) for word in words))
    assert done.exit_code == status, done.output
    assert said in done.output
    assert "Traceback" not in done.output


def test_debug_shows_the_traceback(run):
    done = run("--debug", "assess", "--real", "nowhere", "--fake", "nowhere")
    assert done.exit_code == 1
    assert "Traceback" in done.stderr
    assert "Traceback" not in run("assess", "--real", "nowhere", "--fake", "nowhere").stderr


def test_folders_with_a_broken_image_fail_or_skip_as_asked(run, tmp_path):
    rng = np.random.default_rng(0)
    for side in ("real", "fake"):
        (tmp_path / side).mkdir()
        for i in range(12):
            Image.fromarray(rng.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(tmp_path / side / f"{i}.png")
    (tmp_path / "fake" / "broken.png").write_bytes(b"not a picture")
    words = (
        "assess",
        "--real",
        tmp_path / "real",
        "--fake",
        tmp_path / "fake",
        "--encoder",
        "pixels",
        "--metrics",
        "fid",
    )
    failed = run(*words)
    assert failed.exit_code == 1
    assert "broken.png" in failed.output
    skipped = run(*words, "--on-error", "skip")
    assert skipped.exit_code == 0, skipped.output
    assert "skipped 1 of 13" in skipped.output


# ---------------------------------------------------------------------------------------------------- groups and keys


def rows_of(n, rng, *, b_varies):
    """Two groups; in "b" the number hardly varies, unless it should."""
    labels = ["a", "b"] * (n // 2)
    return [(label, rng.normal(0, 1 if label == "a" or b_varies else 0.05)) for label in labels]


@pytest.fixture
def tables(tmp_path):
    """Group "b" of the fakes lacks variety, and is spelt in a file of its own too."""
    rng = np.random.default_rng(0)
    for name, varies in (("real", True), ("fake", False)):
        rows = rows_of(160, rng, b_varies=varies)
        (tmp_path / f"{name}.csv").write_text("sex,x\n" + "".join(f"{label},{x:.6f}\n" for label, x in rows))
        (tmp_path / f"{name}.txt").write_text("".join(f"{label}\n" for label, _ in rows))
        np.save(tmp_path / f"{name}-x.npy", np.array([[x] for _, x in rows]))
    return tmp_path


def recalls(done):
    assert done.exit_code == 0, done.output
    (model,) = json.loads(done.stdout)["models"].values()
    return {label: group["scores"]["recall"]["value"] for label, group in model["groups"].items()}


def test_groups_are_a_column_of_a_table(run, tables):
    words = ("--real", tables / "real.csv", "--fake", f"ours={tables / 'fake.csv'}", "--groups", "sex", *QUICK)
    found = recalls(run("assess", *words, "--json"))
    assert found["a"] > 0.85 > 0.4 > found["b"]
    shown = run("assess", *words).stdout.splitlines()
    rows = [line.split()[0] for line in shown if re.match(r"  (value|a|b|chance) ", line)]
    assert rows == ["value", "a", "b", "chance"]


def test_groups_are_lines_of_files(run, tables):
    files = ("--groups", f"real={tables / 'real.txt'}", "--groups", f"ours={tables / 'fake.txt'}")
    words = ("--real", tables / "real-x.npy", "--fake", f"ours={tables / 'fake-x.npy'}", *QUICK, "--json")
    found = recalls(run("assess", *words, *files))
    assert found["a"] > 0.85 > 0.4 > found["b"]
    (tables / "fake.txt").write_text("a\n" * 3)
    short = run("assess", *words, *files)
    assert short.exit_code == 1
    assert "one label for each of the 160 samples" in short.output


def test_groups_are_folders_even_where_an_image_is_skipped(run, tmp_path):
    rng = np.random.default_rng(0)
    for side, shade in (("real", 255), ("fake", 40)):
        for label, top in (("cat", 255), ("dog", shade), (f"only-{side}", 255)):
            (tmp_path / side / label).mkdir(parents=True)
            for i in range(30):
                pixels = rng.integers(0, top, (4, 4, 3), dtype=np.uint8)
                Image.fromarray(pixels).save(tmp_path / side / label / f"{i}.png")
    (tmp_path / "fake" / "cat" / "0.png").write_bytes(b"broken")  # labels must not slip by one
    done = run(
        "assess", "--real", tmp_path / "real", "--fake", f"ours={tmp_path / 'fake'}", "--groups", "folders",
        "--encoder", "pixels", "--metrics", "neighbors", "--on-error", "skip", "--json",
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    (model,) = json.loads(done.stdout)["models"].values()
    assert {label: group["protocol"]["n_fake"] for label, group in model["groups"].items()} == {"cat": 29, "dog": 30}
    recall = {label: group["scores"]["recall"]["value"] for label, group in model["groups"].items()}
    assert recall["cat"] > 0.8 > 0.1 > recall["dog"]
    assert "never produced, and so without scores: only-real" in done.stderr
    assert "not in the data, and so without scores: only-fake" in done.stderr


@pytest.mark.parametrize(
    ("given", "status", "said"),
    [
        (("--groups", "age"), 1, "must be one of its columns (sex, x); got 'age'"),
        (("--groups", "real=nowhere.txt"), 2, "--groups ours=FILE"),
        (("--groups", "sex", "--groups", "x"), 2, "expected `folders`, a column, or"),
        (("--groups", "real=nowhere.txt", "--groups", "ours=nowhere.txt"), 1, "nowhere.txt"),
        (("--key", "features"), 2, "none of the sources has names"),
    ],
)
def test_a_wrong_group_costs_a_line(run, tables, given, status, said):
    done = run("assess", "--real", tables / "real.csv", "--fake", f"ours={tables / 'fake.csv'}", *QUICK, *given)
    assert done.exit_code == status
    assert said in " ".join(done.output.replace("│", " ").split())


def test_arrays_have_no_labels_of_their_own(run, files):
    done = run("assess", "--real", files["real"], "--fake", files["same"], "--groups", "folders", *QUICK)
    assert done.exit_code == 1
    assert "must be name=file with one label per line" in done.output


def test_key_chooses_the_array(run, tmp_path):
    rng = np.random.default_rng(0)
    good, bad = rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 50
    np.savez(tmp_path / "fake.npz", good=good, bad=bad)
    np.save(tmp_path / "real.npy", rng.normal(size=(60, 2)))
    words = ("--real", tmp_path / "real.npy", "--fake", f"it={tmp_path / 'fake.npz'}", "--metrics", "neighbors")
    precision = {}
    for key in ("good", "bad"):
        found = json.loads(run("assess", *words, "--key", key, "--json").stdout)
        precision[key] = found["models"]["it"]["scores"]["precision"]["value"]
    assert precision["good"] > 0.8 > 0 == precision["bad"]
    assert "`key` must be one of the arrays" in run("assess", *words).output


def test_statistics_give_fid_and_nothing_else(run, files, tmp_path):
    real = np.load(files["real"])
    np.savez(tmp_path / "statistics.npz", mu=real.mean(0), sigma=np.cov(real, rowvar=False))
    words = ("assess", "--real", tmp_path / "statistics.npz", "--fake", f"far={files['far']}")
    done = run(*words, "--metrics", "fid", "--json")
    assert done.exit_code == 0, done.output
    score = json.loads(done.stdout)["models"]["far"]["scores"]["fid"]
    assert score["value"] == pytest.approx(3 * 81)
    assert (score["n_real"], score["n_fake"]) == (None, 120)
    refused = run(*words)
    assert refused.exit_code == 1
    assert "`real` holds statistics (mu, sigma), which give FID only" in refused.output
    assert run(*words, "--metrics", "fid", "--out", tmp_path / "out").exit_code == 0


def test_encode_writes_features_and_their_protocol(run, tmp_path):
    (tmp_path / "texts.txt").write_text("one line\nanother line\n")
    done = run("encode", tmp_path / "texts.txt", "--encoder", "ngrams", "--out", tmp_path / "features.npy")
    assert done.exit_code == 0, done.output
    assert np.load(tmp_path / "features.npy").shape == (2, 1024)
    assert json.loads((tmp_path / "features.json").read_text())["encoder"] == "ngrams"


def test_encode_takes_the_array_it_is_told(run, tmp_path):
    np.savez(tmp_path / "both.npz", ones=np.ones((3, 2)), twos=np.full((4, 5), 2.0))
    words = ("encode", tmp_path / "both.npz", "--out", tmp_path / "features.npy")
    done = run(*words, "--key", "twos")
    assert done.exit_code == 0, done.output
    assert np.array_equal(np.load(tmp_path / "features.npy"), np.full((4, 5), 2.0))
    assert "`key` must be one of the arrays" in run(*words).output
    (tmp_path / "texts.jsonl").write_text('{"text": "one", "answer": "two"}\n')
    read = [
        run("encode", tmp_path / "texts.jsonl", "--encoder", "ngrams", "--key", key, "--out", tmp_path / f"{key}.npy")
        for key in ("text", "answer")
    ]
    assert [done.exit_code for done in read] == [0, 0]
    assert not np.array_equal(np.load(tmp_path / "text.npy"), np.load(tmp_path / "answer.npy"))


def test_encode_without_names_refuses_a_key(run, files, tmp_path):
    done = run("encode", files["real"], "--key", "x", "--out", tmp_path / "features.npy")
    assert done.exit_code == 2
    assert "none of the sources has names to choose from" in " ".join(done.output.replace("│", " ").split())
    assert not (tmp_path / "features.npy").exists()


def test_cite_names_the_papers(run):
    assert "Sajjadi et al. (2018)" in run("cite").stdout


def test_the_installed_command_answers():
    done = subprocess.run([sys.executable, "-m", "precall", "--help"], capture_output=True, text=True, check=True)
    assert "precall demo" in done.stdout


# ---------------------------------------------------------------------------------------------- holdout and quick


@pytest.fixture
def training(tmp_path):
    """A table split into training rows and holdout, and fakes of which a half are training rows."""
    rng = np.random.default_rng(0)
    rows = [f"{'abc'[i % 3]},{round(rng.normal(40, 12))},{rng.normal():.6f},{rng.normal():.6f}\n" for i in range(600)]
    train, holdout, fresh = rows[:200], rows[200:400], rows[400:]
    for name, part in (("train", train), ("test", holdout), ("fake", train[:100] + fresh[:100])):
        (tmp_path / f"{name}.csv").write_text("kind,age,x,y\n" + "".join(part))
    return {name: tmp_path / f"{name}.csv" for name in ("train", "test", "fake")}


def test_a_holdout_shows_how_much_was_memorised(run, training):
    words = ("assess", "--real", training["train"], "--fake", f"ours={training['fake']}", "--metrics", "fid", "--json")
    done = run(*words, "--holdout", training["test"])
    assert done.exit_code == 0, done.output
    scores = json.loads(done.stdout)["models"]["ours"]["scores"]
    assert scores["memorized"]["value"] == pytest.approx(0.5, abs=0.03)
    assert scores["memorized"]["p_value"] == 0.001
    assert "memorized" not in json.loads(run(*words).stdout)["models"]["ours"]["scores"]


def test_another_holdout_is_another_assessment_and_shared_rows_are_reported(run, training):
    words = ("assess", "--real", training["train"], "--fake", training["fake"], "--metrics", "fid")
    run(*words, "--holdout", training["test"])
    again = run(*words, "--holdout", training["test"])
    assert "results from the cache" in again.stderr
    assert "samples are in `real`, too" not in again.stderr
    with training["test"].open("a") as file:
        file.write(training["train"].read_text().splitlines()[1] + "\n")
    other = run(*words, "--holdout", training["test"])
    assert "results from the cache" not in other.stderr
    assert "holdout: 1 of " in other.stderr


def test_memorization_without_a_holdout_is_refused(run, files):
    done = run("assess", "--real", files["real"], "--fake", files["same"], "--metrics", "memorization")
    assert done.exit_code == 1
    assert "needs a holdout" in done.stderr


def test_quick_chooses_the_metrics(run, files):
    words = ("assess", "--real", files["real"], "--fake", f"ours={files['same']}", "--quick", "--json")
    found = json.loads(run(*words).stdout)
    assert found["models"]["ours"]["protocol"]["metrics"] == ["auto_quick", "neighbors", "copies", "fid", "c2st"]
    refused = run(*words, "--metrics", "fid")
    assert refused.exit_code == 2
    assert "leave out --metrics or --quick" in refused.stderr.replace("\n", " ")
