"""Run experiments as the command line does, but in this process, because importing torch again takes seconds."""

import runpy
import sys
import warnings

import pytest


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    """Run `python -m experiments.<module> <words>` in an empty folder, and return what it printed."""
    monkeypatch.chdir(tmp_path)

    def run_module(module, *words):
        monkeypatch.setattr(sys, "argv", [module, *map(str, words)])
        with warnings.catch_warnings():
            # another test may have imported the module
            warnings.filterwarnings("ignore", message=".*found in sys.modules", category=RuntimeWarning)
            runpy.run_module(f"experiments.{module}", run_name="__main__", alter_sys=True)
        return capsys.readouterr().out

    return run_module
