"""Encoders by the name of a model or file: tiny local models, and stand-ins for libraries that are not installed."""

import sys
import warnings
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from precall.encoders import encode, load_encoder
from precall.encoders.registry import runs_on_a_device

TEXTS = ["a b c", "c b", "a", " ".join("abc"[i % 3] for i in range(40))]


@pytest.fixture(scope="module")
def tiny_text_model(tmp_path_factory):
    """A BERT with random weights and a vocabulary of letters, as files."""
    transformers = pytest.importorskip("transformers")
    folder = tmp_path_factory.mktemp("bert")
    (folder / "vocab.txt").write_text("\n".join(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "b", "c"]))
    transformers.BertTokenizer(str(folder / "vocab.txt"), model_max_length=16).save_pretrained(folder)
    config = transformers.BertConfig(
        vocab_size=8, hidden_size=8, num_hidden_layers=1, num_attention_heads=2, intermediate_size=8
    )
    transformers.BertModel(config).save_pretrained(folder, safe_serialization=True)
    return folder


def test_a_model_of_texts_from_a_folder(tiny_text_model):
    mean = load_encoder(f"hf:{tiny_text_model}", device="cpu")
    cls = load_encoder(f"hf:{tiny_text_model}?pooling=cls", device="cpu")
    assert mean.protocol["pooling"] == "mean"
    assert mean.protocol["tokens"] == 16
    assert len(mean.protocol["weights"]) == 64
    assert mean.encode(TEXTS).shape == (4, 8)
    assert not np.allclose(mean.encode(TEXTS), cls.encode(TEXTS))
    with pytest.raises(ValueError, match="pooling of mean, cls, last"):
        load_encoder(f"hf:{tiny_text_model}?pooling=all")


def test_texts_that_are_cut_are_counted(tiny_text_model):
    from precall.samples import open_samples

    samples = open_samples(TEXTS)
    encode(samples, load_encoder(f"hf:{tiny_text_model}", device="cpu"), cache=False)
    assert samples.noticed == {"cut": [3]}
    assert "longer than the encoder reads" in samples.notes[0]


def test_code_of_a_model_is_never_run(tiny_text_model, monkeypatch):
    import transformers

    seen = {}
    made = transformers.AutoModel.from_pretrained

    def watched(source, **how):
        seen.update(how)
        return made(source, **how)

    monkeypatch.setattr(transformers.AutoModel, "from_pretrained", watched)
    load_encoder(f"hf:{tiny_text_model}", device="cpu")
    assert seen["trust_remote_code"] is False
    assert seen["use_safetensors"] is True


def test_a_model_that_is_not_there_costs_a_sentence(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", True)
    with pytest.raises(ValueError, match=r"hf:nobody/nothing` cannot be loaded .* hf:FOLDER"):
        load_encoder("hf:nobody/nothing")


def test_a_torchscript_file(tmp_path):
    import torch

    class Mean(torch.nn.Module):
        def forward(self, x):
            return x.float().mean(dim=(2, 3))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # newer torch prefers torch.export
        torch.jit.script(Mean()).save(str(tmp_path / "mean.pt"))
    encoder = load_encoder(f"torchscript:{tmp_path / 'mean.pt'}")
    assert encoder.encode([np.full((4, 4, 3), 7, np.uint8)]).tolist() == [[7, 7, 7]]
    with pytest.raises(ValueError, match="file that exists"):
        load_encoder("torchscript:nothing.pt")


class Session:
    """A stand-in for a session of onnxruntime: the mean colour."""

    def __init__(self, path, providers):
        self.inputs = [SimpleNamespace(name="x", shape=["n", 3, 8, 8])]

    def get_inputs(self):
        return self.inputs

    def run(self, outputs, given):
        assert given["x"].shape[1:] == (3, 8, 8)
        return [given["x"].mean(axis=(2, 3))]


def module(name, **names):
    made = ModuleType(name)
    vars(made).update(names, __version__="1.0")
    return made


def test_an_onnx_file(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", module("onnxruntime", InferenceSession=Session))
    (tmp_path / "a.onnx").write_bytes(b"network")
    encoder = load_encoder(f"onnx:{tmp_path / 'a.onnx'}")
    assert encoder.encode([np.full((4, 4, 3), 255, np.uint8)]).tolist() == [[1, 1, 1]]
    assert len(encoder.protocol["weights"]) == 64


def test_timm_and_open_clip(monkeypatch):
    import torch

    class Network(torch.nn.Module):
        def forward(self, x):
            return x.mean(dim=(2, 3))

        encode_image = forward

    def transform(image):
        return torch.from_numpy(np.asarray(image).transpose(2, 0, 1) / 255).float()

    asked = []
    data = SimpleNamespace(create_transform=lambda **k: transform, resolve_model_data_config=lambda model: {})
    timm = module("timm", data=data, create_model=lambda *a, **k: asked.append((a, k)) or Network())
    clip = module("open_clip", create_model_and_transforms=lambda n, pretrained: (Network(), None, transform))
    monkeypatch.setitem(sys.modules, "timm", timm)
    monkeypatch.setitem(sys.modules, "open_clip", clip)
    for name in ("timm:resnet50.a1_in1k", "open_clip:ViT-B-32/tag"):
        assert load_encoder(name, device="cpu").encode([np.full((4, 4, 3), 255, np.uint8)]).tolist() == [[1, 1, 1]]
    assert asked == [(("resnet50.a1_in1k",), {"pretrained": True, "num_classes": 0})]


def test_sentence_transformers(monkeypatch):
    import torch

    class Model(torch.nn.Module):
        max_seq_length = 3

        def tokenizer(self, text, **how):
            return {"input_ids": text.split()}

        def encode(self, texts, **how):
            return np.array([[float(len(text))] for text in texts])

    seen = {}
    made = lambda name, **how: seen.update(how) or Model()  # noqa: E731
    monkeypatch.setitem(sys.modules, "sentence_transformers", module("st", SentenceTransformer=made))
    encoder = load_encoder("st:tiny", device="cpu")
    assert encoder.encode(["abc"]).tolist() == [[3]]
    assert [encoder.cuts(text) for text in ("one two three", "one two three four")] == [False, True]
    assert seen["trust_remote_code"] is False
    assert seen["model_kwargs"] == {"use_safetensors": True}


def test_a_library_that_is_missing_costs_a_sentence(monkeypatch):
    monkeypatch.setitem(sys.modules, "timm", None)
    with pytest.raises(ValueError, match="pip install timm"):
        load_encoder("timm:resnet50")


def test_forms_run_on_a_device():
    assert runs_on_a_device("hf:org/model")
    assert not runs_on_a_device("onnx:file")
