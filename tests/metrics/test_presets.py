"""Presets against an independent float64 implementation of the published arithmetic."""

import json
import sys
import warnings
from dataclasses import replace

import numpy as np
import pytest
import torch
from scipy.linalg import sqrtm
from scipy.special import softmax
from typer.testing import CliRunner

from precall.cli import app
from precall.encoders import Encoder, load_encoder
from precall.metrics.assessing.assessment import assess
from precall.metrics.inputs.features import Pair
from precall.metrics.protocols import presets
from precall.metrics.protocols.preset_run import unit_principal_axes
from precall.metrics.protocols.presets import PRESETS
from precall.metrics.scores.results import Assessment

pytestmark = pytest.mark.usefixtures("small_committee")

RNG = np.random.default_rng(5)
WIDTHS = {"pool": 12, "spatial": 9, "classes": 6}
WEIGHTS = {name: RNG.normal(size=(8 * 8 * 3, width)) / 8 for name, width in WIDTHS.items()}
REAL = RNG.integers(0, 256, (300, 8, 8, 3), dtype=np.uint8)
FAKE = np.concatenate([REAL[:90] // 2 + 60, RNG.integers(40, 200, (150, 8, 8, 3), dtype=np.uint8)])


def network(images):
    """A stand-in for Inception: pool, spatial and class outputs of small images, as float32."""
    x = np.stack(images).reshape(len(images), -1) / 127.5 - 1
    pool, spatial = np.tanh(x @ WEIGHTS["pool"]), np.maximum(x @ WEIGHTS["spatial"], 0)
    return np.concatenate([pool, spatial, softmax(3 * x @ WEIGHTS["classes"], axis=1)], axis=1).astype(np.float32)


def stand_in(widths=WIDTHS):
    return Encoder("inception-adm", "images", {"outputs": widths}, np.asarray, network)


def outputs(images):
    """The stand-in's outputs in float64."""
    ends = np.cumsum([0, *WIDTHS.values()])
    rows = network(list(images)).astype(np.float64)
    return {name: rows[:, a:b] for name, a, b in zip(WIDTHS, ends, ends[1:], strict=False)}


# ------------------------------------------------------ independent implementation of the published arithmetic


def frechet(first, second):
    """|m − m̂|² + Tr(S + Ŝ − 2 (S Ŝ)^{1/2}) of two pairs of mean and covariance."""
    (mu, sigma), (nu, tau) = first, second
    return float(((mu - nu) ** 2).sum() + np.trace(sigma) + np.trace(tau) - 2 * np.trace(sqrtm(sigma @ tau)).real)


def statistics(x):
    return x.mean(axis=0), np.cov(x, rowvar=False)


def squared(x, y):
    return ((x[:, None] - y[None]) ** 2).sum(-1)


def ball_scores(real, fake, k, *, closed):
    """Precision, recall, density and coverage by all distances; a radius is that to the k-th other sample."""
    inside = np.less_equal if closed else np.less
    radii = [np.sort(squared(x, x), axis=1)[:, k] for x in (real, fake)]
    between = squared(real, fake)
    in_real, in_fake = inside(between, radii[0][:, None]), inside(between, radii[1][None])
    return {
        "precision": in_real.any(0).mean(),
        "recall": in_fake.any(1).mean(),
        "density": in_real.sum() / (k * len(fake)),
        "coverage": inside(between.min(1), radii[0]).mean(),
    }


def inception_score(rows, size):
    parts = [rows[start : start + size] for start in range(0, len(rows), size)]
    return float(np.mean([np.exp((p * (np.log(p) - np.log(p.mean(0)))).sum(1).mean()) for p in parts]))


# ------------------------------------------------------------------------------------------------------------------ adm


@pytest.fixture
def batches(tmp_path):
    """ADM-style files: `.npz` with the images in `arr_0`."""
    np.savez(tmp_path / "real.npz", arr_0=REAL)
    np.savez(tmp_path / "fake.npz", arr_0=FAKE, arr_1=np.zeros(len(FAKE)))
    return tmp_path / "real.npz", tmp_path / "fake.npz"


@pytest.mark.parametrize("part", [5000, 100])
def test_adm_equals_the_published_arithmetic(batches, monkeypatch, part):
    monkeypatch.setitem(PRESETS, "adm", replace(PRESETS["adm"], part=part))
    found = assess(real=str(batches[0]), fake=str(batches[1]), preset="adm", encoder=stand_in())
    p, q = outputs(REAL), outputs(FAKE)
    balls = ball_scores(p["pool"], q["pool"], 3, closed=True)
    expected = {
        "inception_score": inception_score(q["classes"], part),
        "fid": frechet(statistics(p["pool"]), statistics(q["pool"])),
        "sfid": frechet(statistics(p["spatial"]), statistics(q["spatial"])),
        "precision": balls["precision"],
        "recall": balls["recall"],
    }
    assert list(found.scores) == list(expected)
    for name, value in expected.items():
        assert found.scores[name].value == pytest.approx(value, rel=1e-6), name
    assert abs(expected["precision"] - expected["recall"]) > 0.05  # else a swap could not be seen
    assert abs(expected["fid"] / expected["sfid"] - 1) > 0.05
    assert found.scores["inception_score"].settings["splits"] == -(-len(FAKE) // part)


def test_adm_uses_the_statistics_that_a_reference_batch_stores(batches):
    """Reference batches hold some images, and the statistics of the whole data set."""
    p, q = outputs(REAL), outputs(FAKE)
    (mu, sigma), (mu_s, sigma_s) = statistics(p["pool"] + 0.3), statistics(2 * p["spatial"])
    np.savez(batches[0], arr_0=REAL, mu=mu, sigma=sigma, mu_s=mu_s, sigma_s=sigma_s)
    found = assess(real=str(batches[0]), fake=str(batches[1]), preset="adm", encoder=stand_in())
    assert found.scores["fid"].value == pytest.approx(frechet((mu, sigma), statistics(q["pool"])), rel=1e-6)
    assert found.scores["sfid"].value == pytest.approx(frechet((mu_s, sigma_s), statistics(q["spatial"])), rel=1e-6)
    assert found.scores["recall"].value == ball_scores(p["pool"], q["pool"], 3, closed=True)["recall"]
    without = assess(real=str(batches[0]), fake=str(batches[1]), metrics=("fid",), encoder=stand_in())
    assert without.scores["fid"].value == pytest.approx(frechet(statistics(p["pool"]), statistics(q["pool"])), rel=1e-6)


def test_adm_from_the_command_line_with_a_function_of_the_user(batches, tmp_path, monkeypatch):
    source = "from tests_stand_in_source import network, WIDTHS\n\n\ndef run(images):\n    return network(images)\n\n\n"
    (tmp_path / "standin.py").write_text(source + "run.outputs = WIDTHS\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(sys.modules, "tests_stand_in_source", sys.modules[__name__])
    words = ["assess", "--real", str(batches[0]), "--fake", f"ours={batches[1]}", "--preset", "adm"]
    done = CliRunner().invoke(app, [*words, "--encoder", "standin:run", "--json"])
    assert done.exit_code == 0, done.output
    one = json.loads(done.stdout)["models"]["ours"]
    assert one["scores"]["sfid"]["value"] == pytest.approx(
        frechet(*(statistics(outputs(x)["spatial"]) for x in (REAL, FAKE))), rel=1e-6
    )
    assert one["protocol"]["preset"]["name"] == "adm"
    assert one["protocol"]["preset"]["departures"] == [
        "the encoder standin:run instead of the encoder inception-adm",
        "240 fake samples instead of 50000",
    ]


def test_adm_leaves_out_what_the_encoder_cannot_give():
    encoder = Encoder("inception-adm", "images", {}, np.asarray, lambda images: network(images)[:, :12])
    found = assess(real=REAL, fake=FAKE, preset="adm", encoder=encoder)
    assert list(found.scores) == ["fid", "precision", "recall"]
    assert [line for line in found.protocol["preset"]["departures"] if line.startswith("no ")] == [
        "no sfid: the encoder has no output for it",
        "no is: the encoder has no output for it",
    ]
    assert "departs from the preset: no sfid" in repr(found)


def test_a_score_of_an_output_that_is_not_there_is_refused():
    with pytest.raises(ValueError, match="the encoder must have the output `spatial`"):
        assess(real=REAL, fake=FAKE, metrics=("sfid",), encoder="pixels")


def test_outputs_must_fill_the_matrix():
    with pytest.raises(ValueError, match="must return 12 \\+ 9 columns; got 27"):
        assess(real=REAL, fake=FAKE, preset="adm", encoder=stand_in({"pool": 12, "spatial": 9}))


def test_the_network_of_adm_from_a_script(tmp_path):
    """A TorchScript network that returns a tuple has three outputs; one without layers has two."""

    class Three(torch.nn.Module):
        def forward(self, x):
            x = x.float() / 255
            return x.mean((2, 3)), x[:, :1, :2, :2], x.mean((2, 3)).softmax(1)

    class OneByOne(torch.nn.Module):
        def forward(self, x, return_features: bool = False, no_output_bias: bool = False):
            x = x.float() / 255
            return x.mean((2, 3)) if return_features else x.mean((2, 3)).softmax(1)

    for module, widths in ((Three(), [3, 4, 3]), (OneByOne(), [3, 3])):
        encoder = load_encoder("inception-adm", weights=saved(module, tmp_path / f"{len(widths)}.pt"))
        assert list(encoder.protocol["outputs"].values()) == widths
        rows = encoder.encode([*REAL[:3], REAL[0][:4]])
        assert rows.shape == (4, sum(widths))
        assert rows[1, :3] == pytest.approx(REAL[1].mean((0, 1)) / 255, rel=1e-5)
        assert rows[:, -3:].sum(1) == pytest.approx(np.ones(4), rel=1e-5)


class Mixed(torch.nn.Module):
    """A block of Inception with a convolution of its own, of which 7 of 9 channels are spatial features."""

    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 9, 1)

    def forward(self, x):
        return self.conv(x)[:, 2:5]


class LikeThePinnedFile(torch.nn.Module):
    """Resizing as TensorFlow did, then `layers`: the structure of the network of FID."""

    def __init__(self, offset: float):
        super().__init__()
        self.offset = offset
        self.layers = torch.nn.Sequential()
        self.layers.add_module("mixed_5", torch.nn.AvgPool2d(23))
        self.layers.add_module("mixed_6", Mixed())
        self.layers.add_module("pool2", torch.nn.AdaptiveAvgPool2d(1))

    def forward(self, x, return_features: bool = False, no_output_bias: bool = False):
        x = x.float()
        for axis in (2, 3):  # output pixel i lies at i h/299
            place = (torch.arange(299) + self.offset) * x.shape[axis] / 299
            low = place.long().clamp(0, x.shape[axis] - 1)
            share = (place - low).reshape([-1, 1] if axis == 2 else [1, -1])
            high = (low + 1).clamp(max=x.shape[axis] - 1)
            x = (1 - share) * x.index_select(axis, low) + share * x.index_select(axis, high)
        pool = self.layers((x - 128) / 128).flatten(1)
        return pool if return_features else pool.softmax(1)


def saved(module, path):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the pinned files are of this older kind
        torch.jit.script(module).save(str(path))
    return path


def test_spatial_features_come_from_the_layers_of_the_pinned_network(tmp_path):
    module = LikeThePinnedFile(0.0)
    encoder = load_encoder("inception-adm", weights=saved(module, tmp_path / "layers.pt"), device="cpu")
    assert encoder.protocol["outputs"] == {"pool": 3, "spatial": 7 * 13 * 13, "classes": 3}
    image = torch.from_numpy(np.full((1, 3, 8, 8), 40, np.uint8))  # a constant image stays constant
    with torch.inference_mode():
        expected = module.layers.mixed_6.conv(((image.float() - 128) / 128)[:, :, :1, :1])[0, :7, 0, 0]
    row = encoder.encode([np.full((8, 8, 3), 40, np.uint8)])[0]
    assert row[3:-3].reshape(13, 13, 7)[5, 7] == pytest.approx(expected.numpy(), rel=1e-4)  # height, width, channel


def test_layers_that_are_not_those_of_the_network_are_refused(tmp_path):
    """The layers alone resize otherwise here: without the check, sFID would be of other features."""
    path = saved(LikeThePinnedFile(40.0), tmp_path / "layers.pt")
    encoder = load_encoder("inception-adm", weights=path, device="cpu")
    with pytest.raises(ValueError, match="whose `layers` give its features"):
        encoder.encode([REAL[0]])


# --------------------------------------------------------------------------------------------------------- the others

P, Q = RNG.normal(size=(260, 9)), 0.7 * RNG.normal(size=(180, 9)) + 0.3
WHOLE = RNG.integers(0, 4, (200, 3)).astype(float), RNG.integers(0, 3, (150, 3)).astype(float)  # many ties


@pytest.mark.parametrize(("name", "k", "closed"), [("stylegan", 3, True), ("prdc", 5, False), ("dgm-eval", 5, False)])
@pytest.mark.parametrize("pair", [(P, Q), WHOLE], ids=["normal", "ties"])
def test_balls_equal_the_published_arithmetic(name, k, closed, pair):
    found = assess(real=pair[0], fake=pair[1], preset=name)
    expected = ball_scores(*pair, k, closed=closed)
    for score in set(found.scores) - {"fid"}:
        assert found.scores[score].value == pytest.approx(expected[score], rel=1e-9), score
    assert set(found.scores) == set(PRESETS[name].scores)
    if "fid" in found.scores:
        assert found.scores["fid"].value == pytest.approx(frechet(*map(statistics, pair)), rel=1e-6)


def test_prdc_equals_its_package():
    prdc = pytest.importorskip("prdc")
    found = assess(real=P, fake=Q, preset="prdc")
    theirs = prdc.compute_prdc(real_features=P, fake_features=Q, nearest_k=5)
    for name, value in theirs.items():
        assert found.scores[name].value == pytest.approx(value, rel=1e-12)


def test_prd_averages_the_curves_of_ten_runs_over_twenty_cells():
    """The largest F-scores of the averaged curve, on a fine grid of angles as in the original."""
    found = assess(real=P, fake=Q, preset="prd")
    assert (found.clusters.n_clusters, len(found.clusters.labels_real)) == (20, 10)
    slopes = np.tan(np.linspace(1e-10, np.pi / 2 - 1e-10, 1001))
    curves = []
    for run in range(10):
        p, q = (counts / counts.sum() for counts in found.clusters.counts(run))
        curves.append(np.minimum(p * slopes[:, None], q).sum(1))
    precision = np.mean(curves, axis=0)
    recall = precision / slopes
    for name, beta in (("f8", 8), ("f1_8", 1 / 8)):
        f = (1 + beta**2) * precision * recall / (beta**2 * precision + recall + 1e-10)
        assert found.scores[name].value == pytest.approx(f.max(), abs=2e-4)
    assert found.scores["f8"].value != pytest.approx(found.scores["f1_8"].value, abs=0.01)
    assert "unequal numbers of samples, 260 and 180" in repr(found)


def test_features_of_mauve_and_llm_are_those_of_the_published_pipeline():
    """Rows of length 1, then principal axes up to 90 % of the variance: the same distances as that pipeline gives."""
    from sklearn.decomposition import PCA
    from sklearn.preprocessing import normalize

    x = np.concatenate([P, Q]) * [5, 3, 2, 1, 1, 0.5, 0.1, 0.1, 0.1]
    data = normalize(x, norm="l2", axis=1)
    pca = PCA(n_components=None, whiten=False).fit(data)
    last = int(np.argmax(np.cumsum(pca.explained_variance_ratio_) >= 0.9))
    theirs = pca.transform(data)[:, : last + 1]
    ours = unit_principal_axes(Pair(x[: len(P)], x[len(P) :]))
    assert 1 < ours.dimension < 9
    assert ours.dimension == last + 1
    both = np.concatenate(ours.to_numpy())
    assert squared(both, both) == pytest.approx(squared(theirs, theirs), abs=1e-10)


def test_llm_is_strict_on_these_axes():
    found = assess(real=P + 2, fake=Q + 2, preset="llm")
    axes = unit_principal_axes(Pair(P + 2, Q + 2))
    expected = ball_scores(*axes.to_numpy(), 5, closed=False)
    for name, value in expected.items():
        assert found.scores[name].value == pytest.approx(value, rel=1e-9)
    assert found.protocol["dimension"] == axes.dimension
    assert not found.verdict.startswith("No verdict")


def test_mauve_reads_a_tenth_of_the_samples_as_cells():
    found = assess(real=P + 2, fake=Q + 2, preset="mauve")
    assert found.scores["mauve"].settings == {"n_clusters": 18, "c": 5}
    assert 0 < found.scores["mauve"].value < 1


def test_llm_takes_texts_as_they_are(monkeypatch, tmp_path):
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    words = ["the", "cat", "sat", "one", "hat", "mat", "and", "ate", "all", "day"]
    texts = [" ".join(RNG.choice(words, 12)) for _ in range(120)]
    machine = [" ".join(RNG.choice(words[:5], 12)) for _ in range(110)]
    found = assess(real=texts, fake=machine, preset="llm")
    assert found.encoder == "words"
    assert found.protocol["preset"]["departures"] == ["the encoder words instead of the encoder gpt2-large"]
    assert found.scores["recall"].value < found.scores["precision"].value


def test_principal_axes_of_equal_variance_do_not_break_the_panel():
    """Standardised axes are uncorrelated up to rounding, for which the shrinkage of scikit-learn can be −10¹⁴."""
    from precall.metrics.members.gaussians import gaussian

    found = 0
    for seed in range(200):
        x = np.random.default_rng(seed).normal(size=(60, 8))
        left, _, right = np.linalg.svd(x - x.mean(0), full_matrices=False)
        white = ((left @ right) * np.sqrt(60)).astype(np.float32)
        _, root = gaussian(torch.from_numpy(white))
        eigenvalues = np.linalg.eigvalsh((root @ root.T).numpy())
        found += eigenvalues == pytest.approx(np.ones(8), abs=1e-3)
    assert found == 200


# ------------------------------------------------------------------------------------------------------------- choices


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_names_every_choice(name):
    choices = PRESETS[name].to_dict()
    assert {"encoder", "n_real", "n_fake", "k", "metrics", "clusters", "runs", "normalisation", "dtype"} <= set(choices)
    from precall.encoders import ENCODERS
    from precall.metrics.assessing.registry import METRICS, SCORES

    assert choices["encoder"] in ENCODERS
    assert set(choices["metrics"]) <= set(METRICS)
    assert set(choices["scores"]) <= set(SCORES)
    said = CliRunner().invoke(app, ["presets"]).output
    assert f"{name}: {PRESETS[name].source}" in " ".join(said.split())


@pytest.mark.parametrize("given", [{"k": 7}, {"ties": "open"}, {"metrics": ("fid",)}])
def test_a_choice_beside_the_preset_is_refused(given):
    with pytest.raises(ValueError, match=f"the preset 'adm' chooses `{next(iter(given))}`"):
        assess(real=P, fake=Q, preset="adm", **given)


def test_an_unknown_preset_is_refused():
    with pytest.raises(ValueError, match=r"`preset` must be one of.*adm.*got 'kid50k'"):
        assess(real=P, fake=Q, preset="kid50k")
    done = CliRunner().invoke(app, ["assess", "--real", "a", "--fake", "b", "--preset", "kid50k"])
    assert done.exit_code == 2


def test_results_keep_the_name_of_the_preset():
    found = assess(real=P, fake=Q, preset="prdc")
    again = Assessment.from_dict(json.loads(json.dumps(found.to_dict())))
    assert again.protocol["preset"]["name"] == "prdc"
    assert repr(again).splitlines()[0].startswith("preset prdc, encoder none")
    assert "given features instead of the encoder vgg16" in repr(again)
    assert presets.PRESETS["prdc"].departures(encoder="vgg16", n_real=10_000, n_fake=10_000) == []


@pytest.mark.parametrize(
    ("there", "mauve", "llm"),
    [
        ((), "minilm", "words"),
        (("minilm",), "minilm", "minilm"),
        (("minilm", "gpt2-large"), "gpt2-large", "gpt2-large"),
    ],
    ids=str,
)
def test_presets_of_texts_take_gpt2_where_its_weights_are(there, mauve, llm, tmp_path, monkeypatch):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    for name in there:
        (tmp_path / "weights" / name).mkdir(parents=True)
    assert (PRESETS["mauve"].default_encoder, PRESETS["llm"].default_encoder) == (mauve, llm)
    said = PRESETS["llm"].departures(encoder=llm, n_real=9, n_fake=9)
    assert said == ([] if llm == "gpt2-large" else [f"the encoder {llm} instead of the encoder gpt2-large"])
