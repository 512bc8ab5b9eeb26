"""Sharded assessments by threads: equal to one process, resumable, and clear about shards that cannot be read."""

import json
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from precall import assess
from precall.metrics.cells.histograms import Clusters
from precall.samples import open_samples

COUNTS = ("neighbors", "symmetric", "clipped", "copies")


def test_scores_equal_those_of_one_process(sets, shards, tmp_path):
    found = assess(**shards, metrics=(*COUNTS, "fid", "kid"), work=tmp_path / "w")
    whole = assess(real=sets[0], fake=sets[1], metrics=(*COUNTS, "fid", "kid"))
    for name, score in whole.scores.items():
        if name in ("fid", "kid"):
            mine = found.scores[name]
            np.testing.assert_allclose(mine.value, score.value, rtol=1e-10 if name == "fid" else 1e-6)
            np.testing.assert_allclose(mine.interval.low, score.interval.low, rtol=1e-6)
        else:
            assert found.scores[name] == score, name
    np.testing.assert_array_equal(found.fake.nearest, whole.fake.nearest)
    assert found.protocol["n_real"] == 500
    assert found.protocol["real"]["shards"] == 5


def test_cells_are_those_of_one_process(sets, shards, tmp_path):
    found = assess(**shards, metrics=("clusters",), work=tmp_path / "w", seed=3).clusters
    whole = assess(real=sets[0], fake=sets[1], metrics=("clusters",), seed=3).clusters
    assert isinstance(found, Clusters)
    # the mean is summed in another order
    assert (found.labels_real == whole.labels_real).mean() > 0.99
    assert (found.labels_fake == whole.labels_fake).mean() > 0.99


def test_any_cut_into_shards_gives_the_same_results(sets, tmp_path):
    real, fake = sets
    one, two = (
        assess(real=np.array_split(real, a), fake=np.array_split(fake, b), metrics=("neighbors",), work=tmp_path / "w")
        for a, b in ((3, 4), (7, 1))
    )
    assert one.scores == two.scores


def test_a_rerun_computes_nothing_and_equals_the_first_run(shards, tmp_path):
    first = assess(**shards, metrics=("neighbors", "fid"), work=tmp_path / "w")
    again = assess(**shards, metrics=("neighbors", "fid"), work=tmp_path / "w")
    assert json.dumps(again.to_dict()) == json.dumps(first.to_dict())
    timings = json.loads((tmp_path / "w" / "timings.json").read_text())
    assert {one["computed"] for one in timings.values()} == {0}


def test_a_changed_shard_is_computed_again(shards, tmp_path):
    assess(**shards, metrics=("neighbors",), work=tmp_path / "w")
    np.save(tmp_path / "f1.npy", np.load(tmp_path / "f1.npy") + 1)
    changed = assess(**shards, metrics=("neighbors",), work=tmp_path / "w")
    timings = json.loads((tmp_path / "w" / "timings.json").read_text())
    assert timings["real balls"]["merged"]
    assert not timings["fake balls"]["merged"]
    assert changed.scores == assess(**shards, metrics=("neighbors",), work=tmp_path / "v").scores


def test_a_corrupt_shard_is_named(shards, tmp_path):
    (tmp_path / "r2.npy").write_bytes(b"\x93NUMPY nonsense")
    with pytest.raises(ValueError, match=r"r2\.npy.*1 of 5 shards of `real` cannot be read.*on-error skip"):
        assess(**shards, metrics=("fid",), work=tmp_path / "w")


@pytest.mark.parametrize("fault", ["corrupt", "nan", "empty", "short"])
def test_a_corrupt_shard_is_skipped_on_request(sets, shards, tmp_path, fault):
    from precall.metrics.scale.sharded import assess_sharded

    path = tmp_path / "f1.npy"
    if fault == "nan":
        np.save(path, np.full((50, 6), np.nan, np.float32))
    else:
        path.write_bytes({"corrupt": b"nonsense", "empty": b"", "short": path.read_bytes()[:-40]}[fault])
    source = {"real": shards["real"], "fake": {"ours": shards["fake"]}}
    (found,) = assess_sharded(**source, metrics=("neighbors",), work=tmp_path / "w", on_error="skip")
    (skipped,) = found.protocol["fake"]["skipped_shards"]
    assert skipped["id"] == str(path)
    assert "1 of 3 shards" in found.protocol["notices"][0]
    left = np.concatenate([sets[1][:150], sets[1][200:]])
    expected = assess(real=sets[0], fake=left, metrics=("neighbors",))
    assert found.scores == expected.scores


def test_shards_that_differ_are_named(shards, tmp_path):
    np.save(tmp_path / "r1.npy", np.zeros((9, 5), np.float32))
    with pytest.raises(ValueError, match=r"same columns.*r0\.npy` has 6 columns.*r1\.npy` has 5"):
        assess(**shards, metrics=("fid",), work=tmp_path / "w")


def test_sides_that_differ_are_refused(sets, tmp_path):
    with pytest.raises(ValueError, match="same dimension"):
        assess(real=[sets[0]], fake=[sets[1][:, :3]], metrics=("fid",), work=tmp_path / "w")


def test_the_default_answer_is_that_of_one_process(sets, shards, tmp_path):
    """With as many samples as the driver holds, the panel sees the same rows in the same order."""
    found = assess(**shards, work=tmp_path / "w")
    whole = assess(real=sets[0], fake=sets[1])
    assert found.scores.keys() == whole.scores.keys()
    for name in ("area", "tv", "missed", "invented", "c2st"):
        assert found.scores[name] == whole.scores[name], name
    assert found.verdict == whole.verdict
    assert found.certificate.to_dict() == whole.certificate.to_dict()


def test_what_does_not_merge_is_computed_from_a_uniform_sample(sets, shards, tmp_path, monkeypatch):
    monkeypatch.setattr("precall.metrics.scale.sharded.ROWS", 120)
    found = assess(**shards, metrics=("linear", "neighbors", "probabilistic", "mauve"), work=tmp_path / "w")
    assert found.protocol["sample"] == [120, 120]
    assert (found.scores["area"].n_real, found.scores["p_recall"].n_fake) == (120, 120)
    assert (found.scores["recall"].n_real, found.scores["recall"].n_fake) == (500, len(sets[1]))
    assert found.real.log_ratio is None


def test_a_metric_that_needs_more_than_features_is_refused(shards, tmp_path):
    with pytest.raises(ValueError, match="not its output `spatial`"):
        assess(**shards, metrics=("sfid",), work=tmp_path / "w")
    with pytest.raises(ValueError, match="needs a holdout"):
        assess(**shards, metrics=("memorization",), work=tmp_path / "w")


@pytest.mark.parametrize(
    "argument", [{"holdout": np.zeros((5, 6))}, {"groups": {}}, {"preset": "adm"}, {"device": "cpu"}]
)
def test_arguments_that_need_one_process_are_refused(shards, tmp_path, argument):
    with pytest.raises(ValueError, match=f"`{next(iter(argument))}` needs all samples in one process"):
        assess(**shards, work=tmp_path / "w", **argument)


def test_too_large_a_k_is_refused(sets, tmp_path):
    with pytest.raises(ValueError, match="`k` must be"):
        assess(real=[sets[0]], fake=[sets[1][:4]], metrics=("neighbors",), work=tmp_path / "w")


def test_other_sources_are_refused(tmp_path):
    with pytest.raises(ValueError, match="a pattern, a folder, a file"):
        assess(real=[3], fake=[np.zeros((9, 2))], metrics=("fid",), work=tmp_path / "w")


def test_texts_are_encoded_shard_by_shard(tmp_path):
    pytest.importorskip("pyarrow")
    import pyarrow as pa
    import pyarrow.parquet as pq

    words = ["red", "green", "blue", "small", "large", "round"]
    rng = np.random.default_rng(0)
    for side in ("r", "f"):
        for i in range(2):
            texts = [" ".join(rng.choice(words, 6)) for _ in range(30)]
            pq.write_table(pa.table({"text": texts}), tmp_path / f"{side}{i}.parquet")
    source = {"real": str(tmp_path / "r*.parquet"), "fake": str(tmp_path / "f*.parquet")}
    found = assess(**source, metrics=("neighbors",), encoder="ngrams", work=tmp_path / "w")
    assert found.scores == assess(**source, metrics=("neighbors",), encoder="ngrams").scores
    assert found.protocol["real"]["encoder"] == "ngrams"
    assert len(list((tmp_path / "w" / "features").glob("*.npy"))) == 4


def test_one_folder_of_images_is_encoded_in_ranges(tmp_path, monkeypatch):
    from PIL import Image

    monkeypatch.setattr("precall.encoders.sharding.RANGE", 8)
    rng = np.random.default_rng(0)
    for side in ("real", "fake"):
        (tmp_path / side).mkdir()
        for i in range(20):
            Image.fromarray(rng.integers(256, size=(8, 8, 3), dtype=np.uint8)).save(tmp_path / side / f"{i}.png")
    source = {"real": str(tmp_path / "real"), "fake": str(tmp_path / "fake")}
    found = assess(**source, metrics=("neighbors",), encoder="pixels", work=tmp_path / "w")
    assert found.protocol["real"]["shards"] == 3
    assert found.scores == assess(**source, metrics=("neighbors",), encoder="pixels").scores


def test_ray_is_imported_by_its_engine_only(python):
    code = (
        "import sys, numpy as np, tempfile; from precall import assess\n"
        "x = np.random.default_rng(0).normal(size=(20, 2))\n"
        "with tempfile.TemporaryDirectory() as work: assess(real=[x], fake=[x + 1], metrics=('fid',), work=work)\n"
        "print('ray' in sys.modules)"
    )
    done = subprocess.run([*python(), "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"


def test_headers_of_shards_are_parsed_one_at_a_time(monkeypatch, tmp_path):
    """Python 3.11 raises SystemError if two threads parse literals at once, as NumPy does for each header."""
    inside, most, real = [0], [0], np.lib.format.open_memmap

    def slow(*args, **settings):
        inside[0] += 1
        most[0] = max(most[0], inside[0])
        time.sleep(0.02)
        inside[0] -= 1
        return real(*args, **settings)

    monkeypatch.setattr(np.lib.format, "open_memmap", slow)
    for i in range(4):
        np.save(tmp_path / f"{i}.npy", np.zeros((3, 2)))
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda i: open_samples(str(tmp_path / f"{i}.npy")).array[:].sum(), range(4)))
    assert (found, most) == ([0.0] * 4, [1])
