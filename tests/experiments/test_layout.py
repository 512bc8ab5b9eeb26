"""Every experiment says how to run it, is listed in the docs, and uses only public names of precall."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ("sajjadi_2018", "simon_2019", "djolonga_2020", "verine_2024", "extensions")
EXPERIMENTS = sorted(
    path
    for folder in FOLDERS
    for path in (ROOT / "experiments" / folder).glob("*.py")
    if '__name__ == "__main__"' in path.read_text()
)
DOCS = (ROOT / "docs" / "experiments.md").read_text()
PROGRAMS = sorted([*ROOT.glob("experiments/**/*.py"), *ROOT.glob("benchmarks/*.py")])


@pytest.mark.parametrize("path", EXPERIMENTS, ids=lambda path: path.stem)
def test_its_command_is_documented(path):
    command = f"python -m experiments.{path.parent.name}.{path.stem}"
    assert command in ast.get_docstring(ast.parse(path.read_text()))
    assert command in DOCS
    assert 'if __name__ == "__main__":\n    main()' in path.read_text()
    assert list((path.parent / "results").glob(f"{path.stem}*.json"))


def test_the_docs_name_files_that_exist():
    named = re.findall(r"`((?:experiments|benchmarks)/[\w/.-]+)`", DOCS)
    assert [name for name in named if not (ROOT / name).exists()] == []
    modules = re.findall(r"python -m ((?:experiments|benchmarks)[\w.]+)", DOCS)
    assert len(modules) > 10
    assert [name for name in modules if not (ROOT / f"{name.replace('.', '/')}.py").exists()] == []


def private(path):
    """Underscore names that a file takes from precall or from any object but `self`."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute) and re.match(r"_[a-z]", node.attr):
            if getattr(node.value, "id", None) not in ("self", "cls"):
                yield node.attr
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("precall"):
            yield from (alias.name for alias in node.names if alias.name.startswith("_"))


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_only_public_names_are_used(path):
    assert list(private(path)) == []
