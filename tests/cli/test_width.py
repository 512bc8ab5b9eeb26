"""Every command in a terminal of 80 columns: no line is longer, and no number is broken."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

from precall.cli import VERBS, app

ASSESS = "assess --real real.npy --fake a_model=a.npy --fake b=b.npy --metrics neighbors,clusters,fid,kid"
COMMANDS = (
    "--help", *(f"{verb.__name__} --help" for verb in VERBS), "assess --help-all", "reference --help",
    "reference make --help", "reference sketch --help", "reference merge --help",
    ASSESS, f"{ASSESS} --out report --groups real=g.txt --groups a_model=g.txt --groups b=g.txt",
    f"{ASSESS} --out runs/step-1", "report report", "report report --out page.html", "report runs --history",
    "presets", "list encoders", "list metrics", "cite", "cache", "cache verify", "encode real.npy --out features.npy",
    "assess --real asked.jsonl --fake asked.jsonl --prompt prompt --key answer --metrics linear,c2st,prompts",
    "assess --real asked.jsonl --fake swapped.jsonl --prompt prompt --key answer --metrics linear,c2st,prompts",
    "assess --real real.csv --fake fake.csv --groups a_rather_long_name --metrics linear,neighbors --show-rows",
    "assess --real real.csv --fake fake.csv --quick --out table", "assess --real real.jsonl --fake a.jsonl --quick",
    "improve --real real.npy --fake a.npy --plan --estimator linear",
    "improve --real real.npy --fake a.npy --budget 2 --out kept.txt --estimator linear",
    "improve --real real.npy --fake a.npy --lam 5 --target tuning --estimator linear",
    "reference make real.npy --out data.precall",
    "reference sketch --real data.precall --fake a.npy --out a.sketch",
    "reference sketch --real data.precall --fake b.npy --out b.sketch",
    "reference merge a.sketch b.sketch --out ab.sketch",
    "tradeoff --real real.npy --fake ours@0.7=a.npy --fake ours@1=b.npy --metrics clusters --lam 2",
    "tune --data digits --lam 5 --steps 2 --out run", "tune --data digits --lam 0.1 --lam 10 --steps 2 --out dial",
    # mistakes
    "assess --real missing/ --fake a.npy", f"{ASSESS} --preset unknown", "assess --real real.npy --fake a.npy --k 999",
    "improve --real real.npy --fake a.npy", "report nothing", "assess --real real.npy --fake a.npy --metrics all",
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("width")
    rng = np.random.default_rng(0)
    for name, shift in (("real", 0), ("a", 1), ("b", 40)):
        np.save(place / f"{name}.npy", 1000 * (rng.normal(size=(120, 3)) + shift))
    for name in ("real", "fake"):
        rows = [f"{rng.integers(9)},{rng.normal()},{rng.choice(['x', 'y'])},secret {i}" for i in range(90)]
        (place / f"{name}.csv").write_text("\n".join(["age,monthly_income_before_taxes,a_rather_long_name,id", *rows]))
    for name in ("real", "a"):
        words = (" ".join(rng.choice(["cat", "dog", "tree", "house"], 9)) for _ in range(60))
        (place / f"{name}.jsonl").write_text("\n".join(json.dumps({"text": line}) for line in words))
    words = rng.choice(["cat", "dog", "tree", "house"], (80, 6))
    for name, answers in (("asked", words), ("swapped", words[::-1])):
        pairs = [
            {"prompt": f"a rather long question, number {i}, about {word[0]}", "answer": " ".join(answer)}
            for i, (word, answer) in enumerate(zip(words, answers, strict=True))
        ]
        (place / f"{name}.jsonl").write_text("\n".join(map(json.dumps, pairs)))
    (place / "g.txt").write_text("a group with a long name, as they are\nb\n" * 60)
    return place


def test_every_command_is_among_them():
    """`demo` prints what `assess` prints."""
    known = {verb.__name__ for verb in VERBS} | {"list", "reference"}
    assert known - {command.split()[0] for command in COMMANDS if "--help" not in command} == {"demo"}


def test_no_line_is_longer_than_the_terminal_and_no_number_is_broken(folder, monkeypatch):
    monkeypatch.chdir(folder)
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("PRECALL_CACHE", "cache")
    for command in COMMANDS:
        done = CliRunner().invoke(app, command.split())
        assert done.exit_code in (0, 1, 2), (command, done.output)
        lines = done.output.splitlines()
        assert lines
        assert not [line for line in lines if len(line) > 80], command
        assert not [line for line in lines if re.search(r"\[[-\d., %]*$| =$", line)], command
