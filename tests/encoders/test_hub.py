"""The encoders of `transformers` with the library itself, on small networks with random weights."""

from importlib.util import find_spec

import numpy as np
import pytest
import torch
from PIL import Image

from precall.encoders import load_encoder
from precall.lazy import LazyModule

transformers = LazyModule("transformers")
pytestmark = pytest.mark.skipif(not find_spec("transformers"), reason="the extra `networks` is not installed")

VISION = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "patch_size": 14}
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "cat", "sat", "on", "the", "mat", "##s", "."]


@pytest.fixture
def saved(tmp_path):
    """Save a model in a folder for `weights=`."""

    def save(model):
        model.save_pretrained(tmp_path)
        return tmp_path

    torch.manual_seed(0)
    return save


@pytest.fixture
def photo():
    """A smooth landscape image, on which different resizing methods agree."""
    waves = np.sin(np.arange(300)[:, None, None] / 40 + np.arange(400)[None, :, None] / 60 + np.arange(3))
    return (127 * (1 + waves)).astype(np.uint8)


def test_dinov2_is_the_class_token_of_the_whole_image(saved, photo):
    model = transformers.Dinov2Model(transformers.Dinov2Config(image_size=224, **VISION)).eval()
    features = load_encoder("dinov2", weights=saved(model), device="cpu").encode([photo])
    pixels = np.asarray(Image.fromarray(photo).resize((224, 224), Image.Resampling.BICUBIC)) / 255
    scaled = (pixels - [0.485, 0.456, 0.406]) / [0.229, 0.224, 0.225]
    with torch.inference_mode():
        tokens = model(torch.tensor(scaled, dtype=torch.float32).permute(2, 0, 1)[None]).last_hidden_state
    assert features == pytest.approx(tokens[:, 0].numpy(), abs=1e-5)


def test_clip_agrees_with_its_own_preprocessing(saved, photo):
    config = transformers.CLIPVisionConfig(image_size=224, projection_dim=24, intermediate_size=64, **VISION)
    model = transformers.CLIPVisionModelWithProjection(config).eval()
    features = load_encoder("clip", weights=saved(model), device="cpu").encode([photo])
    prepared = transformers.CLIPImageProcessor()(Image.fromarray(photo), return_tensors="pt")
    with torch.inference_mode():
        expected = model(**prepared).image_embeds.numpy()
    assert features.shape == (1, 24)
    assert features == pytest.approx(expected, abs=0.003)  # the library crops after resizing, precall before


@pytest.fixture
def sentences(saved):
    """A folder with a small BERT and its tokenizer."""
    config = transformers.BertConfig(
        vocab_size=len(WORDS), hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    folder = saved(transformers.BertModel(config))
    (folder / "vocab.txt").write_text("\n".join(WORDS))
    transformers.BertTokenizer(vocab=str(folder / "vocab.txt")).save_pretrained(folder)
    return folder


def test_minilm_is_the_mean_token_whatever_stands_beside_a_text(sentences):
    texts = ["a cat", "", "the cats sat on the mat. " * 60]  # the last text exceeds the token limit
    features = load_encoder("minilm", weights=sentences, device="cpu").encode(texts)
    model = transformers.AutoModel.from_pretrained(sentences)
    tokenizer = transformers.AutoTokenizer.from_pretrained(sentences)
    for row, text in zip(features, texts, strict=True):
        tokens = tokenizer(text, return_tensors="pt", truncation=True, max_length=256)
        with torch.inference_mode():
            mean = model(**tokens).last_hidden_state[0].mean(0)
        assert row == pytest.approx((mean / mean.norm()).numpy(), abs=1e-5)
    assert tokens["input_ids"].shape == (1, 256)


def test_offline_the_sentence_names_an_encoder_that_needs_no_weights(monkeypatch, tmp_path):
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"model\.safetensors.*The encoder `words` needs no files\."):
        load_encoder("minilm")
