"""Each encoder: its protocol, its weights, and its errors if something is missing."""

import hashlib
import importlib
import sys
import types
import urllib.request
import warnings

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

from precall import assess
from precall.encoders import ENCODERS, encode, load_encoder, weights as weights_module, words
from precall.encoders.encoder import SLOTS
from precall.encoders.networks import random_vgg
from precall.encoders.resizing import Resizing
from precall.encoders.weights import Weights, find_weights
from precall.samples import open_samples

RNG = np.random.default_rng(0)
IMAGES = [RNG.integers(0, 256, (8, 10, 3), dtype=np.uint8) for _ in range(3)]


def test_random_vgg_is_fixed_by_its_seed():
    first, again, other = random_vgg(), random_vgg(), random_vgg(seed=1)
    features = first.encode(IMAGES)
    assert features.shape == (3, 512)
    assert (features >= 0).all()
    assert (features == again.encode(IMAGES)).all()
    assert (features != other.encode(IMAGES)).any()
    assert first.protocol == again.protocol
    assert first.protocol["weights"] != other.protocol["weights"]
    assert first.protocol["weights"] == "c58de11e807cb76bf8e1177c1a6f9597660948abc5a33c3637c7f18352138d16"


def test_random_vgg_neither_dies_nor_explodes():
    """He initialisation preserves the scale through fifteen layers, and different images stay distinct."""
    flat = [np.full((64, 64, 3), value, np.uint8) for value in (0, 255)]
    noise = [RNG.integers(0, 256, (64, 64, 3), dtype=np.uint8) for _ in range(6)]
    features = random_vgg().encode(flat + noise)
    assert 0.05 < features.mean() < 20
    distances = np.linalg.norm(features[:, None] - features[None], axis=2)[np.triu_indices(8, 1)]
    assert distances.min() > 0.01 * np.linalg.norm(features, axis=1).mean()


def test_random_vgg_does_not_touch_the_global_generators():
    torch_state, numpy_state = torch.random.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
    random_vgg()
    assert (torch.random.get_rng_state() == torch_state).all()
    assert (np.random.get_state()[1] == numpy_state).all()  # noqa: NPY002


def test_pixels_are_the_pixels():
    image = RNG.integers(0, 256, (32, 32, 3), dtype=np.uint8)
    assert (load_encoder("pixels").encode([image])[0] * 255).round().astype(int).tolist() == image.ravel().tolist()


def test_resizing_averages_when_it_shrinks():
    """A checkerboard becomes grey. Without antialiasing it would stay black and white."""
    board = np.indices((64, 64)).sum(0) % 2 * 255
    small = Resizing(8, "bilinear")(np.repeat(board[..., None], 3, 2).astype(np.uint8))
    assert abs(small.astype(int) - 127).max() <= 2


def test_the_central_square_costs_no_memory_on_a_very_wide_image():
    wide = np.zeros((1, 100_000, 3), np.uint8)
    wide[0, 50_000] = 200
    assert Resizing(224, "bicubic", crop=True)(wide).shape == (224, 224, 3)
    stripes = np.zeros((10, 30, 3), np.uint8)
    stripes[:, 10:20] = 255
    assert Resizing(20, "bilinear", crop=True)(stripes)[:, 2:-2].min() == 255


def test_one_antialias_protocol_a_network():
    assert load_encoder("pixels").protocol["resize"]["filter"] == "bilinear"
    assert load_encoder("random-vgg").protocol["resize"] == {
        "size": 64,
        "filter": "bicubic",
        "antialias": True,
        "shape": "whole image",
    }


class FakeInception(nn.Module):
    """The call of the FID network: pool features, or class probabilities."""

    def forward(
        self, img, return_features: bool = False, use_fp16: bool = False, no_output_bias: bool = False
    ):  # fmt: skip
        assert img.dtype == torch.uint8
        mean = img.float().mean(dim=[2, 3])
        if return_features:
            return mean
        return torch.softmax(mean / 255 if no_output_bias else mean, dim=1)


class FakeVGG(nn.Module):
    def forward(self, img, resize_images: bool = True, return_features: bool = False):
        return img.float().mean(dim=[2, 3]) * (2.0 if return_features else 1.0)


@pytest.fixture(scope="session")
def scripts(tmp_path_factory):
    folder = tmp_path_factory.mktemp("scripts")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(FakeInception()).save(str(folder / "inception.pt"))
        torch.jit.script(FakeVGG()).save(str(folder / "vgg16.pt"))
    return folder


def means(images):
    return np.stack([image.astype(float).mean((0, 1)) for image in images])


def test_inception_features_and_probabilities(scripts):
    path = scripts / "inception.pt"
    mixed = [*IMAGES, np.full((4, 4, 3), 9, np.uint8), IMAGES[0]]
    encoder = load_encoder("inception", weights=path)
    assert encoder.encode(mixed) == pytest.approx(means(mixed), abs=1e-3)
    assert encoder.protocol["weights"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert encoder.protocol["resize"] == "by the network: 299 × 299 bilinear, no antialias"
    probabilities = load_encoder("inception-probabilities", weights=path).encode(IMAGES)
    scaled = np.exp(means(IMAGES) / 255)
    assert probabilities == pytest.approx(scaled / scaled.sum(1, keepdims=True), abs=1e-5)


def test_vgg16_features(scripts):
    assert load_encoder("vgg16", weights=scripts / "vgg16.pt").encode(IMAGES) == pytest.approx(
        2 * means(IMAGES), abs=1e-3
    )


def test_large_images_go_through_the_network_few_at_a_time(scripts, monkeypatch):
    monkeypatch.setattr("precall.encoders.networks.PIXELS_AT_ONCE", 100)
    assert load_encoder("inception", weights=scripts / "inception.pt").encode(IMAGES) == pytest.approx(
        means(IMAGES), abs=1e-3
    )


def test_a_file_that_is_no_network_is_refused(tmp_path):
    (tmp_path / "x.pt").write_bytes(b"nothing")
    with pytest.raises(ValueError, match="must be a TorchScript file") as caught:
        load_encoder("inception", weights=tmp_path / "x.pt")
    assert "\n" not in str(caught.value)


def answering(data, calls):
    def urlopen(url, timeout):
        calls.append(url)
        if data is None:
            raise OSError("network is unreachable")
        import io

        return io.BytesIO(data)

    return urlopen


@pytest.fixture
def connected(monkeypatch):
    """Servers can be reached; the tests answer in their place."""
    monkeypatch.setattr(weights_module, "check_reachable", lambda url: None)


@pytest.mark.usefixtures("connected")
def test_offline_the_error_names_the_file_the_hash_and_the_place(cache, monkeypatch):
    monkeypatch.setattr(urllib.request, "urlopen", answering(None, []))
    for name, file in [("inception", "inception-2015-12-05.pt"), ("vgg16", "vgg16.pt")]:
        with pytest.raises(
            ValueError, match=f"Put the file at `{cache / 'weights' / file}`; in Python, its path may also"
        ) as caught:
            load_encoder(name)
        assert file in str(caught.value)
        assert "SHA-256" in str(caught.value)
        assert "network is unreachable" in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.usefixtures("connected")
def test_weights_are_fetched_once_and_held_to_their_hash(cache, monkeypatch):
    data, calls = b"weights", []
    pinned = Weights("w.pt", "https://example.org/w.pt", hashlib.sha256(data).hexdigest())
    monkeypatch.setattr(urllib.request, "urlopen", answering(data, calls))
    for _ in range(2):
        path, sha256 = find_weights("x", pinned)
        assert (path, sha256) == (cache / "weights" / "w.pt", pinned.sha256)
        assert path.read_bytes() == data
    assert calls == ["https://example.org/w.pt"]
    path.write_bytes(b"tampered")
    assert find_weights("x", pinned)[0].read_bytes() == data
    assert len(calls) == 2
    (aside,) = (cache / "damaged").iterdir()
    assert aside.name.startswith("weights-w.pt.")
    assert aside.read_bytes() == b"tampered"


@pytest.mark.usefixtures("connected")
def test_fetched_bytes_with_another_hash_are_thrown_away(cache, monkeypatch):
    monkeypatch.setattr(urllib.request, "urlopen", answering(b"evil", []))
    with pytest.raises(ValueError, match=f"it has SHA-256 {hashlib.sha256(b'evil').hexdigest()}"):
        find_weights("x", Weights("w.pt", "https://example.org/w.pt", "0" * 64))
    assert [path for path in cache.rglob("*") if path.is_file()] == []


def test_given_weights_are_a_file(tmp_path):
    (tmp_path / "net.pt").write_bytes(b"mine")
    found = find_weights("x", Weights("a", "b", "c"), tmp_path / "net.pt")
    assert found == (tmp_path / "net.pt", hashlib.sha256(b"mine").hexdigest())
    for bad in ("nowhere.pt", "https://example.org/net.pt"):
        with pytest.raises(ValueError, match="`weights` must be a file that exists"):
            find_weights("x", Weights("a", "b", "c"), bad)


def test_the_pins_are_hashes():
    from precall.encoders.networks import INCEPTION, VGG16

    for pinned in (INCEPTION, VGG16):
        assert len(bytes.fromhex(pinned.sha256)) == 32
        assert pinned.url.startswith("https://")
        assert pinned.url.endswith(pinned.file)
    assert weights_module.TIMEOUT > 0


class Output(types.SimpleNamespace):
    pass


class FakeVision(nn.Module):
    """Replacement for a vision transformer with a recognisable first token and embedding."""

    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.tensor(3.0))

    def forward(self, pixel_values):
        assert pixel_values.shape[1:] == (3, 224, 224)
        mean = pixel_values.mean(dim=(2, 3))
        return Output(last_hidden_state=torch.stack([mean, mean * 0 + 7], 1), image_embeds=self.scale * mean)


class FakeText(nn.Module):
    def forward(self, input_ids, attention_mask):
        ids = input_ids[..., None].float()
        return Output(last_hidden_state=torch.cat([ids, torch.ones_like(ids)], -1))


class FakeTokenizer:
    pad_token, model_max_length = "[PAD]", 512

    def __call__(self, texts, padding, truncation, max_length, return_tensors):
        codes = [[ord(c) for c in text][:max_length] for text in texts]
        width = max(map(len, codes))
        ids = torch.tensor([code + [999] * (width - len(code)) for code in codes])
        mask = torch.tensor([[1] * len(code) + [0] * (width - len(code)) for code in codes])
        return {"input_ids": ids, "attention_mask": mask}


@pytest.fixture
def transformers(monkeypatch):
    """Replacement for the library that records requests in `asked`."""
    module = types.ModuleType("transformers")
    module.__version__ = "0.0"
    module.asked = []

    def loader(model):
        def from_pretrained(source, **options):
            module.asked.append((source, options))
            if isinstance(model(), Exception):
                raise model()
            return model()

        return types.SimpleNamespace(from_pretrained=from_pretrained)

    module.loader = loader
    module.AutoModel = loader(FakeVision)
    module.CLIPVisionModelWithProjection = loader(FakeVision)
    module.AutoTokenizer = loader(FakeTokenizer)
    monkeypatch.setitem(sys.modules, "transformers", module)
    monkeypatch.setattr("precall.encoders.hub.check_reachable", lambda url: None)
    return module


def test_dinov2_reads_the_class_token(transformers):
    encoder = load_encoder("dinov2")
    options = {"use_safetensors": True, "local_files_only": True}  # the network is asked only if this fails
    assert transformers.asked == [("facebook/dinov2-large", options)]
    flat = np.full((224, 224, 3), 255, np.uint8)
    expected = (1 - np.array([0.485, 0.456, 0.406])) / np.array([0.229, 0.224, 0.225])
    assert encoder.encode([flat])[0] == pytest.approx(expected, abs=1e-4)
    assert encoder.protocol["resize"]["shape"] == "whole image"
    assert len(encoder.protocol["weights"]) == 64
    assert encoder.protocol["transformers"] == "0.0"


def test_clip_reads_the_embedding_of_the_central_square(transformers):
    image = np.zeros((224, 3 * 224, 3), np.uint8)
    image[:, 224:448] = 255
    encoder = load_encoder("clip", weights="a/folder")
    assert transformers.asked[0][0] == "a/folder"
    expected = 3 * (1 - np.array([0.48145466, 0.4578275, 0.40821073])) / np.array([0.26862954, 0.26130258, 0.27577711])
    assert encoder.encode([image])[0] == pytest.approx(expected, abs=1e-4)


def test_minilm_averages_tokens_and_ignores_padding(transformers):
    transformers.AutoModel = transformers.loader(FakeText)
    encoder = load_encoder("minilm")
    texts = ["ab", "a much longer text"]
    together = encoder.encode(texts)
    mean = np.array([[np.mean([ord(c) for c in text]), 1.0] for text in texts])
    assert together == pytest.approx(mean / np.linalg.norm(mean, axis=1, keepdims=True), abs=1e-5)
    assert encode(texts, encoder).array == pytest.approx(together, abs=0)


def test_models_are_taken_from_their_folder_in_the_cache(transformers, cache):
    (cache / "weights" / "dinov2").mkdir(parents=True)
    load_encoder("dinov2")
    assert transformers.asked[0][0] == str(cache / "weights" / "dinov2")


def test_a_model_that_cannot_be_fetched_says_what_to_put_where(transformers, cache):
    transformers.AutoModel = transformers.loader(lambda: OSError("no connection\nand a long story"))
    with pytest.raises(ValueError, match=rf"model\.safetensors.*in `{cache / 'weights' / 'dinov2'}`") as caught:
        load_encoder("dinov2")
    assert "no connection" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["dinov2", "clip", "minilm"])
def test_without_the_library_the_error_names_the_extra(monkeypatch, name):
    monkeypatch.setitem(sys.modules, "transformers", None)
    with pytest.raises(ValueError, match=rf"encoder `{name}` needs transformers: pip install 'precall\[networks\]'"):
        load_encoder(name)


def test_words_tell_texts_apart_row_by_row():
    encoder = load_encoder("words")
    texts = ["the cat sat on the mat", "a kitten was sitting on a rug", "interest rates fell in the last quarter", ""]
    rows = encoder.encode(texts)
    topics, letters = rows[:, :128], rows[:, 128:]
    assert rows.shape == (4, 256)
    for half in (topics, letters):
        assert np.linalg.norm(half[:3], axis=1) == pytest.approx(1, abs=1e-6)
    # no long word is shared, but what they are about
    assert topics[0] @ topics[1] > topics[0] @ topics[2] + 0.2
    assert letters[0] @ letters[1] < 0.8
    assert (np.concatenate([encoder.encode([text]) for text in texts]) == rows).all()


def test_word_pieces_are_those_of_the_vocabulary():
    """The tokenizer of MiniLM gives the same pieces for this text, and for 1,496 of 1,500 posts of 20 Newsgroups."""
    index, vectors, scale = words.vocabulary()
    assert vectors.shape == (len(index), len(scale))
    found = [words.word_pieces(word, index) for word in words.words_of("Unaffable naïveté, 日本! " + 101 * "x")]
    names = {number: piece for piece, number in index.items()}
    assert [[names[number] for number in one] for one in found] == [
        ["una", "##ffa", "##ble"],
        ["naive", "##te"],
        [","],
        ["日"],
        ["本"],
        ["!"],
        ["[UNK]"],
    ]


def test_a_dropped_topic_is_missed_by_the_default():
    """Each text is about one of two topics, in words of its own; the model never writes about the second one."""
    rng = np.random.default_rng(0)
    topics = (
        ["goal", "match", "referee", "stadium", "striker", "league", "tackle", "penalty", "keeper", "coach"],
        ["court", "judge", "lawyer", "verdict", "trial", "appeal", "jury", "witness", "statute", "plaintiff"],
    )

    def written(n, shares):
        return [" ".join(rng.choice(topics[rng.random() > shares], 4)) for _ in range(n)]

    found = assess(real=written(300, 0.5), fake=written(300, 1.0), metrics=("linear",))
    assert found.encoder == "words"
    assert found.scores["missed"].value == pytest.approx(0.5, abs=0.1)


def test_ngrams_tell_texts_apart_row_by_row():
    encoder = load_encoder("ngrams")
    texts = ["the cat sat on the mat", "the cat sat on a mat", "3.14159 26535"]
    rows = encoder.encode(texts)
    assert rows.shape == (3, 1024)
    assert np.linalg.norm(rows, axis=1) == pytest.approx(1, abs=1e-6)
    assert rows[0] @ rows[1] > 0.7 > 0.3 > rows[0] @ rows[2]
    assert (np.concatenate([encoder.encode([text]) for text in texts]) == rows).all()


def test_ngrams_see_the_order_of_words_and_are_not_drowned_by_frequent_ones():
    encoder = load_encoder("ngrams")
    said, shuffled = encoder.encode(["dogs bite men", "men bite dogs"])
    assert said @ shuffled < 0.95
    quark, lepton = encoder.encode(["the " * 50 + word for word in ("quark", "lepton")])
    assert quark @ lepton < 0.97  # plain counts: 0.999
    assert (encoder.encode([""]) == 0).all()


@pytest.mark.parametrize("name", ["words", "ngrams"])
def test_capitals_are_seen(name):
    plain, shouted = load_encoder(name).encode(["The cat sat on the mat.", "THE CAT SAT ON THE MAT."])
    assert plain @ shouted < 0.75 * (plain @ plain)


def test_ones_own_encoder_by_name(tmp_path, monkeypatch):
    (tmp_path / "my_encoder.py").write_text(
        "def brightness(images):\n    return [[image.mean()] for image in images]\nx = 3\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    encoder = load_encoder("my_encoder:brightness")
    assert encoder.encode(IMAGES)[:, 0] == pytest.approx([image.mean() for image in IMAGES], abs=1e-4)
    assert encoder.protocol["source"] == hashlib.sha256((tmp_path / "my_encoder.py").read_bytes()).hexdigest()
    (tmp_path / "my_encoder.py").write_text("def brightness(images): return [[0.0]] * len(images)\nx = 3\n")
    edited = load_encoder("my_encoder:brightness")
    assert edited.key("f") != encoder.key("f")
    importlib.reload(sys.modules["my_encoder"])
    loaded = load_encoder("my_encoder:brightness")
    assert len({encoder.key("f"), edited.key("f"), loaded.key("f")}) == 3
    assert loaded.key("f") == load_encoder("my_encoder:brightness").key("f")
    for name in ("no_such_module:f", "my_encoder:nothing", "my_encoder:x", ":f", "my_encoder:"):
        with pytest.raises(ValueError, match="`encoder` must name a function"):
            load_encoder(name)


def test_unknown_names_and_options_are_refused():
    with pytest.raises(ValueError, match=r"must be one of efficientnet, random-vgg, inception, .*; got 'inceptoin'"):
        load_encoder("inceptoin")
    with pytest.raises(ValueError, match=r"encoder `pixels` does not take `weights`\. Leave it out"):
        load_encoder("pixels", weights="x.pt")
    with pytest.raises(ValueError, match="encoder `ngrams` does not take `device`"):
        load_encoder("ngrams", device="cpu")


def test_every_encoder_has_a_name_and_a_docstring():
    assert {"inception", "vgg16", "dinov2", "clip", "minilm", "random-vgg", "pixels", "identity", "table"} <= set(
        ENCODERS
    )
    assert all(make.__doc__ for make in ENCODERS.values())


def test_hostile_and_mixed_images_end_to_end(tmp_path):
    """Encode images of many sizes, modes and names with the default encoder; broken files are listed by name."""
    folder = tmp_path / "x"
    folder.mkdir()
    Image.new("L", (5, 300), 9).save(folder / "grey.png")
    Image.new("RGBA", (70, 3), (1, 2, 3, 99)).save(folder / "<img src=x onerror=alert(1)>.png")
    Image.new("RGB", (100_000, 1)).save(folder / "wide.png")
    Image.new("CMYK", (8, 8)).save(folder / "print.jpg")
    (folder / "broken.jpg").write_bytes(b"\xff\xd8\xff\xe0 broken")
    features = encode(open_samples(folder, on_error="skip"))
    assert features.encoder == "efficientnet"
    assert features.shape == (4, 384)
    assert [error.id for error in features.errors] == ["broken.jpg"]
    assert SLOTS == 32
