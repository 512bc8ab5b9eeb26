"""Texts, tables, iterables, torch datasets and generators, and invalid sources."""

import json
import sys
from types import ModuleType

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st
from PIL import Image
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

from precall.samples import SampleError, open_samples
from precall.samples.sampleset import natural, shown

IMAGES = np.random.default_rng(0).integers(0, 256, (10, 5, 6, 3), dtype=np.uint8)
TENSORS = torch.from_numpy(IMAGES.transpose(0, 3, 1, 2) / np.float32(255))


def test_lines_of_text(tmp_path):
    (tmp_path / "x.txt").write_bytes("\ufeffone\r\n\ntwo, with café \n   \nthree".encode())
    samples = open_samples(tmp_path / "x.txt")
    assert (samples.kind, len(samples), list(samples.ids)) == ("text", 3, ["line 1", "line 3", "line 5"])
    assert [samples[i] for i in range(3)] == ["one", "two, with café ", "three"]
    assert samples.describe(0) == "one"
    (tmp_path / "long.txt").write_text("x" * 5000)
    assert len(open_samples(tmp_path / "long.txt").describe(0)) == 300
    (tmp_path / "empty.txt").write_text("\n\n")
    with pytest.raises(ValueError, match="must contain at least one line of text"):
        open_samples(tmp_path / "empty.txt")


def test_text_that_is_not_utf8_is_one_error(tmp_path):
    (tmp_path / "x.txt").write_bytes(b"good\n\xff\xfe\nalso good")
    samples = open_samples(tmp_path / "x.txt", on_error="skip")
    (batch,) = samples.batches(9)
    assert batch.items == ["good", "also good"]
    assert [str(error) for error in samples.errors] == ["line 2: not UTF-8"]


def test_json_lines(tmp_path):
    lines = [json.dumps("plain"), json.dumps({"text": "field"}), "{broken", json.dumps({"label": 3}), "[" * 100_000]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    samples = open_samples(tmp_path / "x.jsonl", on_error="skip")
    (batch,) = samples.batches(9)
    assert batch.items == ["plain", "field"]
    assert [error.id for error in samples.errors] == ["line 3", "line 4", "line 5"]
    assert "no text" in samples.errors[1].reason
    (tmp_path / "y.jsonl").write_text(json.dumps({"text": "a", "caption": "b"}))
    assert open_samples(tmp_path / "y.jsonl", key="caption")[0] == "b"
    assert open_samples(tmp_path / "y.jsonl")[0] == "a"
    first, second = (open_samples(tmp_path / "y.jsonl", key=key).fingerprint() for key in (None, "caption"))
    assert first != second


class Numbered(Dataset):
    """A torch dataset that counts how often it is read."""

    def __init__(self):
        self.reads = []

    def __len__(self):
        return len(IMAGES)

    def __getitem__(self, index):
        self.reads.append(index)
        return TENSORS[index], index % 3


def test_a_torch_dataset_is_read_when_asked_for():
    dataset = Numbered()
    samples = open_samples(dataset)
    assert dataset.reads == [0]  # to determine the kind
    assert (samples.kind, len(samples), samples.name) == ("images", 10, "Numbered")
    assert (samples[7] == IMAGES[7]).all()
    assert dataset.reads == [0, 7]


class Stream(IterableDataset):
    def __iter__(self):
        yield from TENSORS


@pytest.mark.parametrize(
    "source",
    [
        lambda: [Image.fromarray(image) for image in IMAGES],
        lambda: list(IMAGES),
        lambda: (image for image in IMAGES),
        lambda: [{"image": Image.fromarray(image), "label": 1} for image in IMAGES],
        lambda: Stream(),
        lambda: DataLoader(TensorDataset(TENSORS), batch_size=3),
        lambda: DataLoader(TensorDataset(TENSORS, torch.arange(10)), batch_size=4),
        lambda: DataLoader(Numbered(), batch_size=4),
        lambda: DataLoader([{"image": t, "id": i} for i, t in enumerate(TENSORS)], batch_size=4),
        lambda: DataLoader(Stream(), batch_size=3),
    ],
    ids=["pil", "arrays", "generator", "dicts", "iterable", "tensors", "pairs", "loader", "loader of dicts", "stream"],
)
def test_images_from_python(source):
    samples = open_samples(source())
    assert (samples.kind, len(samples), samples.ids[9]) == ("images", 10, "9")
    assert all((samples[i] == IMAGES[i]).all() for i in range(10))
    assert samples.fingerprint() == open_samples(list(IMAGES)).fingerprint()


def test_texts_and_rows_from_python():
    assert open_samples(["a", "b"])[1] == "b"
    assert open_samples(iter([("a", 1), ("b", 2)]))[1] == "b"
    assert open_samples([{"caption": "c"}], key="caption")[0] == "c"
    assert open_samples(DataLoader(["a", "b", "c"], batch_size=2))[2] == "c"
    assert open_samples([[1.0, 2.0], [3.0, 4.0]])[1].tolist() == [3.0, 4.0]
    assert open_samples([(1.0, 2.0)])[0].tolist() == [1.0, 2.0]
    assert len(open_samples((str(i) for i in range(10**9)), n=4)) == 4
    assert open_samples(["a", "b"]).fingerprint() != open_samples(["ab", ""]).fingerprint()


def test_mixed_kinds_are_errors():
    samples = open_samples(["a", IMAGES[0]], on_error="skip")
    (batch,) = samples.batches(9)
    assert batch.items == ["a"]
    assert str(samples.errors[0]) == "1: images among text"


def test_a_generator_makes_the_same_samples_whoever_asks_first():
    calls = []

    def normal(n, rng):
        calls.append(n)
        return rng.normal(size=(n, 2))

    samples = open_samples(normal, n=600, seed=3)
    assert calls == [256]
    last = samples[599]
    assert calls == [256, 88]
    again = open_samples(normal, n=600, seed=3)
    assert (np.stack([again[i] for i in range(600)])[599] == last).all()
    assert samples.fingerprint() == again.fingerprint()
    assert calls == [256, 88, 256, 256, 88, 256]  # every block once per set
    assert (open_samples(normal, n=600, seed=4)[599] != last).all()
    assert (samples[0] != samples[256]).all()


@pytest.mark.parametrize(
    ("source", "options", "sentence"),
    [
        (lambda n, rng: np.zeros((n, 2)), {}, "`n` must be the number of samples"),
        (lambda n, rng: np.zeros((n + 1, 2)), {"n": 5}, "must return n = 5 samples; got 6"),
        (lambda n, rng: None, {"n": 5}, "must return n = 5 samples; got NoneType"),
        ([], {}, "must contain at least one sample; got an empty list"),
        ([object()], {}, "a sample must be an image, a row of numbers, or a text; got object"),
        ([{"label": 1}], {}, "no sample found in a dict with fields label: name the field with `key`"),
        ({"a": 1}, {}, "`source` must be a path, an array, an iterable"),
        ({"a", "b"}, {}, "`source` must be a path, an array, an iterable"),
        (b"bytes", {}, "got bytes"),
        (3, {}, "got int"),
        (None, {}, "got NoneType"),
        ("/no/such/place", {}, "the samples must be a folder or file that exists; got `/no/such/place`"),
        (["a"], {"on_error": "ignore"}, "`on_error` must be one of fail, skip"),
    ],
)
def test_what_is_no_source_costs_one_sentence(source, options, sentence):
    with pytest.raises(ValueError, match=sentence) as caught:
        open_samples(source, **options)
    assert "\n" not in str(caught.value)


def test_unknown_and_pickled_suffixes(tmp_path):
    for name, sentence in [("x.xyz", r"a file \(\.zip \.npy"), ("x.pkl", "opening it can run arbitrary code")]:
        (tmp_path / name).write_bytes(b"x")
        with pytest.raises(ValueError, match=sentence):
            open_samples(tmp_path / name)


def test_a_dataset_that_fails_is_skipped_where_asked():
    class Failing(Numbered):
        def __getitem__(self, index):
            if index in (0, 4):
                raise OSError("disk on fire")
            return TENSORS[index]

    samples = open_samples(Failing(), on_error="skip")
    assert [index for batch in samples.batches(3) for index in batch.indices] == [1, 2, 3, 5, 6, 7, 8, 9]
    assert [error.reason for error in samples.errors] == ["disk on fire"] * 2
    with pytest.raises(SampleError, match="0: disk on fire"):
        open_samples(Failing())


@given(st.lists(st.integers(0, 10**30)))
def test_natural_order_is_the_order_of_numbers(numbers):
    names = [f"img{number}.png" for number in numbers]
    assert sorted(names, key=natural) == [f"img{number}.png" for number in sorted(numbers)]


@given(st.lists(st.text("ab01 /", max_size=6), max_size=8))
def test_natural_order_is_total_and_stable_under_shuffling(names):
    assert sorted(names, key=natural) == sorted(names, key=natural)


@given(st.text())
def test_shown_text_is_printable_and_printable_text_is_unchanged(text):
    assert shown(text).isprintable()
    assert shown(shown(text)) == shown(text)


@pytest.mark.parametrize("module", ["PIL.Image", "torch.utils.data", "datasets"])
def test_a_module_that_another_thread_is_importing_has_no_classes_yet(module, monkeypatch):
    monkeypatch.setitem(sys.modules, module, ModuleType(module))
    assert open_samples(iter([[1.0, 2.0], [3.0, 4.0]])).kind == "features"
