"""One hypothesis profile for all: no deadline (shared machines), same examples every run. Programs run as modules."""

import gc
import os
import runpy
import shutil
import signal
import subprocess
import sys
import warnings
from functools import cache
from importlib.metadata import entry_points
from pathlib import Path
from unittest.mock import patch

import matplotlib
import pytest
import typer.testing
from _pytest.doctest import DoctestModule
from hypothesis import HealthCheck, settings

import forks
from precall import plugins

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome", "chrome"))), None)
# pages are drawn without the emulation of a graphics card, which takes half of the time
DRAWN = ("--disable-gpu", "--disable-software-rasterizer")
QUIET = ("--no-sandbox", "--no-first-run", "--disable-background-networking", "--disable-sync", *DRAWN)

# the background of a shell ignores SIGINT, nohup ignores SIGHUP, and the children of the tests would inherit that
signal.signal(signal.SIGINT, signal.default_int_handler)
if hasattr(signal, "SIGHUP"):
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# the processes that tests start would compile the package each anew, which takes almost a second
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False  # and pytest would rewrite the assertions of all tests anew, in each worker

# typer reads the options of all commands anew for each command line, which takes 70 ms
typer.testing._get_command = cache(typer.testing._get_command)

# no test cuts the power: to wait for the disk takes milliseconds per file, and test_files asks whether precall would
os.fsync = lambda number: None


@cache
def entry_points_in(path, **given):
    """The entry points of the packages in the folders of `path`."""
    return entry_points(**given)


# the files of all installed packages are read anew wherever a plug-in may be meant, which takes 20 ms
plugins.entry_points = lambda **given: entry_points_in(tuple(sys.path), **given)

matplotlib.use("Agg")
settings.register_profile(
    "precall", deadline=None, derandomize=True, max_examples=30, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("precall")


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Messages on stderr are wrapped at the width of the terminal; tests look for whole sentences."""
    monkeypatch.setenv("COLUMNS", "10000")


@pytest.fixture
def run_module(monkeypatch, capsys):
    """Run `python -m <module> <words>` in this process, because importing torch again takes seconds; returns stdout.

    The environment and the number of threads, which some programs set, are those of the tests again afterwards.
    """
    import torch

    threads = torch.get_num_threads()

    def run(module, *words):
        monkeypatch.setattr(sys, "argv", [module, *map(str, words)])
        with patch.dict(os.environ), warnings.catch_warnings():
            # another test may have imported the module
            warnings.filterwarnings("ignore", message=".*found in sys.modules", category=RuntimeWarning)
            runpy.run_module(module, run_name="__main__", alter_sys=True)
        return capsys.readouterr().out

    yield run
    torch.set_num_threads(threads)


# where the panel has all members, but few trees: elsewhere it is small, and metrics resample less often. In doctests
# and in tests with the marker `whole_panel`, nothing is quickened
WITH_THE_PANEL = {"improve", "metrics"}
WITH_PICTURES = {"drawn", "experiments", "integrations"}  # rooms and a fixture
HERE = Path(__file__).parent


def quickened(item):
    """The functions of `committee` that make the metrics and the pictures of a test quick."""
    around = {*item.path.relative_to(HERE.parent).parts, *getattr(item, "fixturenames", ())}
    pictures = () if WITH_PICTURES & around else ("make_blank",)
    if not item.path.is_relative_to(HERE) or item.get_closest_marker("whole_panel"):
        return pictures
    if item.path.relative_to(HERE).parts[0] not in WITH_THE_PANEL:
        return ("make_rough", "make_small", *pictures)
    return ("make_small" if "small_committee" in around else "make_light", *pictures)


@pytest.hookimpl(wrapper=True)
def pytest_collect_file():
    """Look for doctests in src alone: programs that tests start would be imported for it, and Lightning with them."""
    return [one for one in (yield) if not isinstance(one, DoctestModule)]


COLLECTED = []  # full collections since the last test


def noted(phase, info):
    """A callback of garbage collections."""
    if phase == "stop" and info["generation"] == 2:
        COLLECTED.append(info)


@pytest.hookimpl(wrapper=True)
def pytest_collection():
    """Collect no garbage among the tests and the modules, which stay: it takes seconds to look at them all."""
    gc.disable()
    yield
    gc.freeze()
    gc.enable()
    gc.callbacks.append(noted)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item):
    """Make metrics and pictures quick, also for the fixtures of a test and for the commands that it starts.

    What a full collection found in use, such as modules that were imported since, is not looked at again.
    """
    if COLLECTED:
        gc.freeze()
        COLLECTED.clear()
    with pytest.MonkeyPatch.context() as patch:
        if quick := quickened(item):
            import committee

            for name in quick:
                getattr(committee, name)(patch)
            patch.setenv(committee.SMALL, ",".join(quick))
        return (yield)


@pytest.fixture
def drawn():
    """With the pictures that a command draws."""


@pytest.fixture
def small_committee():
    """Without the slow members of the panel, for tests in which the panel is not what is tested."""


@pytest.fixture(scope="session")
def python():
    """A function that returns the beginning of a command line, `python`, that needs no time for its imports.

    Its arguments are modules that the command imports, beside torch, scikit-learn and precall. See `forks` for what
    differs from a new interpreter, which is used where there is no such server, and to measure coverage.
    """
    plain = [sys.executable]
    if not hasattr(os, "pidfd_open") or "COVERAGE_PROCESS_CONFIG" in os.environ:
        yield lambda *needs: plain
        return
    name = f"precall-tests-{os.environ.get('PYTEST_XDIST_TESTRUNUID') or os.getpid()}"  # one for all workers
    try:
        connection, server = forks.held(name)
    except OSError:  # a sandbox may forbid such sockets, or what the server needs
        yield lambda *needs: plain
        return
    with connection:
        start = [sys.executable, "-I", "-S", forks.__file__, name]
        tried = subprocess.run([*start, "", "-c", "print(1)"], capture_output=True, text=True)
        works = (tried.returncode, tried.stdout) == (0, "1\n")
        yield lambda *needs: [*start, ",".join(needs)] if works else plain
    if server is not None:
        server.wait()


@pytest.fixture(scope="session")
def browser():
    """Chromium, once per process. Without it the tests are skipped, except in CI, where they fail."""
    give_up = pytest.fail if os.environ.get("CI") else pytest.skip
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        give_up("playwright is missing: the dev extra installs it")
    if CHROMIUM is None:
        give_up("no Chromium found: `apt-get install chromium` installs it")
    with sync_playwright() as p:
        started = p.chromium.launch(executable_path=CHROMIUM, args=list(QUIET))
        yield started
        started.close()
