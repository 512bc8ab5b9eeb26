"""Every example runs, prints something and leaves no files behind. Long trainings are cut short."""

import os
import sys
import warnings
from pathlib import Path
from unittest.mock import patch

import matplotlib.pyplot as plt
import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
SHORTER = {"pr_objective_loop": ("STEPS, BATCH = 2000, 256", "STEPS, BATCH = 100, 256")}


@pytest.mark.parametrize("script", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(script, tmp_path, monkeypatch, capsys):
    """In this process, because importing torch again takes seconds."""
    text = script.read_text()
    if script.stem in SHORTER:
        assert SHORTER[script.stem][0] in text
        text = text.replace(*SHORTER[script.stem])
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PRECALL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(sys, "argv", [str(script)])
    with patch.dict(os.environ), warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("error", UserWarning)
        run(script, text)
    assert capsys.readouterr().out.strip()
    assert not [path for path in tmp_path.iterdir() if path.name != "cache"]


def run(script, text):
    """Run the text of a script as `python` does; an exit with status 0 is no error."""
    try:
        exec(compile(text, script, "exec"), {"__name__": "__main__", "__file__": str(script)})
    except SystemExit as ended:
        if ended.code:
            raise
    finally:
        plt.close("all")


def test_there_are_examples():
    assert len(EXAMPLES) >= 12
