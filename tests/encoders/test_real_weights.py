"""Real weights end to end, if PRECALL_REAL_WEIGHTS names the folder into which they were unpacked."""

import json
import os
import warnings
from pathlib import Path

import pytest

from benchmarks import real_weights

FOLDER = Path(os.environ.get("PRECALL_REAL_WEIGHTS", "/nonexistent"))


@pytest.mark.parametrize("name", real_weights.FILES)
def test_real_weights_run_end_to_end(name, tmp_path):
    if not (FOLDER / real_weights.FILES[name]).is_file():
        pytest.skip("PRECALL_REAL_WEIGHTS does not name a folder with these weights")
    real_weights.main(["--smoke", "--only", name, "--weights", str(FOLDER), "--out", str(tmp_path / "out.json")])
    found = json.loads((tmp_path / "out.json").read_text())[name]
    assert len(found["models"]) == 3


def test_a_script_of_this_kind_becomes_the_encoder_inception(tmp_path, capsys):
    """A stand-in with the interface of the real file: 299 × 299 pixels in [−1, 1) to features."""
    torch = pytest.importorskip("torch")

    class Network(torch.nn.Module):
        def forward(self, x):
            assert x.shape[2] == 299
            assert bool(x.abs().max() <= 1)
            return torch.cat([x.mean((2, 3)), x.std((2, 3))], dim=1)

    path = tmp_path / real_weights.FILES["inception"]
    path.parent.mkdir()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        torch.jit.script(Network()).save(str(path))
    real_weights.main(["--smoke", "--only", "inception", "minilm", "--weights", str(tmp_path)])
    said = capsys.readouterr().out
    assert "inception: 6 dimensions" in said
    assert "minilm: skipped" in said


def test_published_figures_put_held_out_samples_first():
    """The published figures, as the script wrote them."""
    found = json.loads((Path(real_weights.__file__).parent / "results" / "real_weights.json").read_text())
    named = [name for name in real_weights.FILES if name in found]
    assert "inception" in named
    for name in named:
        models = found[name]["models"]
        assert min(models, key=lambda model: models[model]["fid"]) == "held out"
        assert max(models, key=lambda model: models[model]["recall"]) == "held out"
