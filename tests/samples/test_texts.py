"""Texts: nested fields, surrogates, limits, and notices about lengths."""

import json
import warnings

import numpy as np
import pytest
from typer.testing import CliRunner

import precall
from precall.cli import app
from precall.encoders import encode
from precall.samples import SampleError, SampleWarning, open_samples, reading
from precall.samples.texts import json_text


def jsonl(path, records):
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


@pytest.mark.parametrize(
    ("record", "key"),
    [
        ({"resps": [["answer"]]}, "resps.0.0"),
        ({"resps": [["no"], ["answer"]]}, "resps.1.0"),
        ({"resps": [["no", "answer"]]}, "resps.0.-1"),
        ({"doc": {"a.b": "answer"}}, "doc.a.b"),
        ({"doc.a": {"b": "no"}, "doc": {"a": {"b": "answer"}}}, "doc.a.b"),
        ({"doc.a": "answer", "doc": {"a": "no"}}, "doc.a"),
        ({"choices": [{"message": {"content": "answer"}}]}, "choices.0.message.content"),
        ({"0": "answer"}, "0"),
        (["no", "answer"], "1"),
        ("answer", "anything"),
    ],
)
def test_nested_fields(tmp_path, record, key):
    assert open_samples(jsonl(tmp_path / "a.jsonl", [record]), key=key)[0] == "answer"


@pytest.mark.parametrize(
    ("record", "key", "sentence"),
    [
        ({"resps": [["a"]]}, "resps", r"under 'resps'; there is a list of 1\. Add a position, as in `\.0`"),
        ({"a": {"b": 1}}, "a", r"under 'a'; there is an object with b\. Add a name"),
        ({"a": [1]}, "a.1", "under 'a.1'$"),
        ({"a": [1]}, "a.x", "under 'a.x'$"),
        ({"a": [1]}, "a.99999999999999999999", "under"),
        ({"a": None}, "a.b", "under 'a.b'$"),
        ({"a": 3}, "a", "under 'a'$"),
        (3, "a", "under 'a'$"),
        ({"a": "text"}, "a.0", "under 'a.0'$"),
    ],
)
def test_a_path_without_a_text_names_the_way_out(record, key, sentence):
    with pytest.raises(ValueError, match=sentence):
        json_text(json.dumps(record), key)


def test_a_harness_log_is_assessed_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    for name in ("real", "fake"):
        jsonl(tmp_path / f"{name}.jsonl", [{"doc_id": i, "resps": [[f"{name} answer {i % 17}"]]} for i in range(60)])
    words = ["assess", "--real", tmp_path / "real.jsonl", "--fake", tmp_path / "fake.jsonl", "--key", "resps.0.0"]
    done = CliRunner().invoke(app, [*map(str, words), "--metrics", "fid"])
    assert done.exit_code == 0, done.stderr
    assert "fid" in done.stdout


@pytest.mark.parametrize("kind", ["jsonl", "list"])
def test_lone_surrogates_are_replaced_and_named(tmp_path, kind):
    (tmp_path / "a.jsonl").write_text('"cut \\ud83d"\n"whole \\ud83d\\ude00"\n"plain"\n')
    source = tmp_path / "a.jsonl" if kind == "jsonl" else ["cut \ud83d", "whole \ud83d\ude00", "plain"]
    samples = open_samples(source)
    features = encode(samples, "ngrams", cache=tmp_path / "cache")
    assert [samples[i] for i in range(3)] == ["cut �", "whole \U0001f600", "plain"]
    named = ", ".join(samples.ids[i] for i in range(1 if kind == "jsonl" else 2))
    count = 1 if kind == "jsonl" else 2
    assert samples.notes == (
        f"{count} texts contain halves of surrogate pairs, which are replaced by U+FFFD: {named}.",
    )
    again = open_samples(source)
    assert encode(again, "ngrams", cache=tmp_path / "cache").cached
    assert again.notes == samples.notes  # from the cache
    assert features.shape == (3, 1024)


def test_the_number_of_lines_is_limited(tmp_path, monkeypatch):
    monkeypatch.setattr(reading, "count_limit", lambda: 10)
    for name, line in (("a.txt", "x\n"), ("a.jsonl", '"x"\n'), ("a.csv", "1,2\n")):
        (tmp_path / name).write_text(line * 11)
        with pytest.raises(reading.InputError, match=r"more than 10\. Split it into several files"):
            open_samples(tmp_path / name)
        (tmp_path / name).write_text(line * 10)
        assert len(open_samples(tmp_path / name)) == 10
    monkeypatch.undo()
    assert reading.count_limit() == 4_194_304


def test_a_missing_field_is_an_unreadable_sample(tmp_path):
    samples = open_samples(jsonl(tmp_path / "a.jsonl", [{"a": "x"}, {"b": "y"}]), key="a")
    with pytest.raises(SampleError, match="line 2: no text"):
        samples[1]


# --------------------------------------------------------------------------------------------------------- lengths

WORDS = ["lorem", "ipsum", "dolor", "sit", "amet", "consectetur"]


def texts(n, words, seed):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(WORDS, int(rng.integers(words // 2, words + 1)))) for _ in range(n)]


@pytest.mark.parametrize("fake", [texts(80, 80, 1), [text[:20] for text in texts(80, 12, 1)], texts(80, 3, 1)])
@pytest.mark.filterwarnings("ignore:.* samples repeat each other")
def test_lengths_that_differ_a_lot_are_named(fake):
    with pytest.warns(SampleWarning, match="the lengths of the texts differ: the median is"):
        found = precall.assess(real=texts(80, 12, 0), fake=fake, metrics=("fid",))
    assert any("cut both sides to the same length" in one for one in found.protocol["notices"])


def test_lengths_of_the_same_law_are_no_notice():
    for seed in range(20):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            found = precall.assess(real=texts(30, 12, seed), fake=texts(30, 12, seed + 99), metrics=("fid",))
        assert "notices" not in found.protocol


def test_the_command_line_prints_notices_also_from_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    for name, words in (("real", 12), ("fake", 60)):
        (tmp_path / f"{name}.txt").write_text("\n".join(texts(60, words, words)))
    real, fake = (str(tmp_path / f"{name}.txt") for name in ("real", "fake"))
    for _ in range(2):
        done = CliRunner().invoke(app, ["assess", "--real", real, "--fake", fake, "--metrics", "fid"])
        assert done.exit_code == 0
        assert done.stderr.count("the lengths of the texts differ") == 1


def test_extra_columns_are_named(tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    rng = np.random.default_rng(0)

    def table(name, header):
        rows = rng.normal(size=(60, len(header)))
        (tmp_path / name).write_text("\n".join([",".join(header), *(",".join(f"{x:.3f}" for x in r) for r in rows)]))
        return tmp_path / name

    real, fake = table("real.csv", ["a", "b"]), table("fake.csv", ["b", "extra", "a", "other"])
    with pytest.warns(SampleWarning, match="fake: columns that `real` does not have are ignored: extra, other"):
        precall.assess(real=real, fake=fake, metrics=("fid",))
    done = CliRunner().invoke(app, ["assess", "--real", str(real), "--fake", f"m={fake}", "--metrics", "fid"])
    assert "columns that `real` does not have are ignored: extra, other." in done.stderr
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        precall.assess(real=real, fake=table("same.csv", ["b", "a"]), metrics=("fid",))
