"""Encoders of the user, and encoders whose weights cannot be downloaded: a sentence, at once."""

import contextlib
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import precall
from precall.encoders import load_encoder, weights

SAMPLES = [np.zeros(3), np.ones(3)]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("math:sqrt", "must turn a list of 32 samples into an array with 32 rows; it raised TypeError"),
        ("builtins:str", "must return numbers; got str"),
        ("builtins:len", "must return one row per sample"),
        ("sys:exit", "it raised SystemExit"),
        ("operator:itemgetter", "must return numbers; got itemgetter"),
    ],
)
def test_a_function_of_another_signature_is_a_sentence(name, said):
    with pytest.raises(ValueError, match="encoder .*" + said):
        load_encoder(name).encode(SAMPLES)


@pytest.mark.parametrize(
    "name", ["nowhere:f", ":", ":f", "math:", "math:nothing", ".math:sqrt", "a b:c", "math:pi", "\0:f", "os.path.:x"]
)
def test_a_name_that_cannot_be_imported_is_a_sentence(name):
    with pytest.raises(ValueError, match="`encoder` must name a function"):
        load_encoder(name)


def test_a_module_that_fails_or_exits_on_import_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name, code in (("broken", "1 / 0"), ("leaving", "raise SystemExit(7)"), ("wrong", "def (")):
        (tmp_path / f"{name}_encoder.py").write_text(code)
        with pytest.raises(ValueError, match="cannot"):
            load_encoder(f"{name}_encoder:f")


def test_the_working_directory_is_not_searched_and_the_error_says_how(tmp_path):
    (tmp_path / "mine.py").write_text("open('ran', 'w')\ndef f(samples): return [[0.0]] * len(samples)\n")
    (tmp_path / "texts.txt").write_text("one\ntwo\n")
    code = "import sys; sys.path = [p for p in sys.path if p]; from precall.cli import app; app()"
    words = ["encode", "texts.txt", "--encoder", "mine:f", "--out", "f.npy"]
    done = subprocess.run(
        [sys.executable, "-c", code, *words], cwd=tmp_path, capture_output=True, text=True,
        env=os.environ | {"PYTHONPATH": str(Path(precall.__file__).parents[1]), "PRECALL_CACHE": str(tmp_path / "c")},
    )  # fmt: skip
    assert done.returncode == 1
    assert "Set PYTHONPATH=. to import from the working directory" in done.stderr
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", ["dinov2", "clip", "minilm"])
def test_offline_a_hub_encoder_fails_at_once(monkeypatch, tmp_path, name):
    pytest.importorskip("transformers")
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", False)

    def unreachable(*_, **__):
        raise OSError("network is unreachable")

    monkeypatch.setattr(socket, "create_connection", unreachable)
    waited = []
    monkeypatch.setattr(time, "sleep", waited.append)
    with pytest.raises(ValueError, match=rf"network is unreachable.*Put its files .* in `{tmp_path}.*{name}`"):
        load_encoder(name)
    assert sum(waited) < 10


def test_a_name_server_that_never_answers_is_given_up(monkeypatch):
    monkeypatch.setattr(weights, "CONNECT", 0.05)
    monkeypatch.setattr(socket, "create_connection", lambda *_, **__: time.sleep(2) or closing())
    with pytest.raises(OSError, match=r"no connection to example\.org: example\.org does not answer"):
        weights.check_reachable("https://example.org/file")


def closing():
    """A connection that can be closed."""
    return contextlib.ExitStack()


def test_behind_a_proxy_the_proxy_must_be_reachable(monkeypatch):
    places = []
    monkeypatch.setattr("urllib.request.getproxies", lambda: {"https": "proxy.local:3128"})
    monkeypatch.setattr(socket, "create_connection", lambda place, timeout: places.append(place) or closing())
    weights.check_reachable("https://example.org/file")
    assert places == [("proxy.local", 3128)]
