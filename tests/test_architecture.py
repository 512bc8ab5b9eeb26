"""Who may import whom, and how light the front door is."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from pathlib import Path

import pytest

import precall

ROOT = Path(precall.__file__).parent
# what each room may import; every room may import itself
ALLOWED = {
    "theory": set(),
    "engines": {"theory"},
    "samples": {"theory"},
    "encoders": {"theory", "samples", "engines"},
    "metrics": {"theory", "samples", "encoders", "engines"},
    "tune": {"theory", "metrics", "samples", "encoders", "engines"},
    "improve": {"theory", "metrics", "samples", "encoders", "engines"},
    "report": {"theory", "metrics", "tune", "improve", "samples", "encoders", "engines"},
    "integrations": {"theory", "metrics", "report"},
    "cli": {"theory", "metrics", "tune", "improve", "report", "samples", "encoders", "engines"},
}
# `Assessment.plot` and `.to_html` are doors to the room that draws; they open when called
DOORS = {("metrics/results.py", f"precall.report.{module}") for module in ("figures", "page", "table")}
HEAVY = {"torch", "matplotlib", "sklearn", "plotly", "pandas"}


def imported(path):
    """Names of modules a file imports, with whether that happens at import time."""
    tree = ast.parse(path.read_text())
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    inside = {id(child) for function in functions for child in ast.walk(function)}
    typing_only = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        for name in names:
            yield name, id(node) not in inside and id(node) not in typing_only


def test_rooms_import_only_what_they_may():
    wrong = []
    for path in ROOT.glob("*/**/*.py"):
        inside = path.relative_to(ROOT)
        for name, at_import in imported(path):
            other = name.split(".")[1] if name.startswith("precall.") else None
            door = (inside.as_posix(), name) in DOORS and not at_import
            if other in ALLOWED and other not in {inside.parts[0], *ALLOWED[inside.parts[0]]} and not door:
                wrong.append(f"{inside} imports {name}")
    assert not wrong


def test_no_module_has_the_name_of_what_its_package_offers():
    """Importing the module would put it in the place of the function."""
    for name in ("precall", "precall.tune", "precall.tune.models", "precall.improve"):
        package = importlib.import_module(name)
        assert not {module.name for module in pkgutil.iter_modules(package.__path__)} & set(package._HOME)


def test_every_room_is_known():
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms <= set(ALLOWED)


def loaded_with(module):
    """Heavy packages that come with importing a module, in a fresh interpreter."""
    code = f"import sys, {module}; print(*sorted({HEAVY | {'scipy', 'numpy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_is_light():
    """Nothing at all comes with `import precall`: that is what keeps it under 0.3 s."""
    assert loaded_with("precall") == set()


@pytest.mark.parametrize("module", ["precall.cli", "precall.theory.spectrum", "precall.metrics.assessment"])
def test_heavy_packages_load_when_used(module):
    assert loaded_with(module) <= {"numpy", "scipy"}


def test_every_public_name_resolves():
    for info in pkgutil.walk_packages([str(ROOT)], prefix="precall."):
        if info.name.endswith("__main__"):
            continue  # importing it is running it
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            assert getattr(module, name) is not None, f"{info.name}.{name}"
    for name in precall.__all__:
        assert getattr(precall, name) is not None
