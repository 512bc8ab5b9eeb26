"""Every example runs, prints something and leaves no files behind. Long trainings are cut short."""

import ast
import json
import os
import sys
import warnings
from pathlib import Path
from unittest.mock import patch

import matplotlib.pyplot as plt
import pytest

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
SHORTER = {
    "dial_loop": ("rounds=25", "rounds=3"),
    "pr_objective_loop": ("STEPS, BATCH = 2000, 256", "STEPS, BATCH = 30, 256"),
}


@pytest.mark.smoke
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


NOTEBOOKS = sorted((Path(__file__).parent.parent / "examples" / "notebooks").glob("*.ipynb"))


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_the_notebook_runs_and_shows_the_verdict_first(notebook, tmp_path, monkeypatch):
    """Cell by cell, as Jupyter does; the value of the last line is displayed. No outputs are committed."""
    monkeypatch.chdir(tmp_path)
    book, names, shown = json.loads(notebook.read_text()), {}, []
    for cell in (one for one in book["cells"] if one["cell_type"] == "code"):
        assert cell["outputs"] == []
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        exec(compile(ast.Module(body, []), notebook, "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), notebook, "eval"), names)
            shown += [value._repr_html_()] if hasattr(value, "_repr_html_") else []
    verdicts = [str(one.verdict) for one in names.get("report", names.get("reports")).values()]
    assert 0 <= shown[0].find(verdicts[0][:20]) < shown[0].find("<img")


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
