"""The mutants of `benchmarks.mutants`: which changes are made, which text is left alone, and how they are drawn."""

import ast
import json
from pathlib import Path

import pytest

from benchmarks import mutants
from benchmarks.mutations import all_mutants, mutants_of

ROOT = Path(__file__).parents[1]
SOURCE = '''"""1 + 2 is not mutated."""
from typing import TYPE_CHECKING
if TYPE_CHECKING:
    SIZE = 1 + 2

def share(real: "1 + 2", fake, k=5) -> "real":
    """Return -1 + 2."""
    if not k < len(real):
        raise ValueError(f"k must be below {len(real) + 1}; got {k}.")
    return min(distance(real, fake)) / (k + 1)

class Point:
    def __repr__(self):
        return "p" * 3
'''


@pytest.fixture
def changes(tmp_path):
    path = tmp_path / "share.py"
    path.write_text(SOURCE)
    return path, mutants_of(path, tmp_path)


def test_every_kind_of_change_is_made_once(changes):
    _, found = changes
    assert {(one.before, one.after) for one in found} == {
        ("5", "6"),
        ("not k < len(real)", "(k < len(real))"),
        ("k < len(real)", "(k <= len(real))"),
        ("real", "fake"),
        ("fake", "real"),
        ("min(distance(real, fake)) / (k + 1)", "(min(distance(real, fake)) * (k + 1))"),
        ("min", "max"),
        ("distance(real, fake)", "distance(fake, real)"),
        ("k + 1", "(k - 1)"),
        ("k + 1", "k"),
        ("1", "2"),
    }
    assert len({one.id for one in found}) == len(found)
    assert {one.function for one in found} == {"share"}


def test_a_mutant_changes_its_expression_only(changes):
    path, found = changes
    (dropped,) = (one for one in found if one.after == "k")
    assert dropped.applied(path.read_bytes()).decode() == SOURCE.replace("(k + 1)\n", "(k)\n")


def test_the_test_that_imports_a_file_is_not_a_test_of_its_constants(tmp_path):
    """Line 1 and line 3 run at import, the others when the function is called."""
    path = tmp_path / "share.py"
    path.write_text("LEVEL = 0.5\n\ndef share(k=5):\n    return 2 * k\n")
    lines = {"imports": {1, 3}, "calls": {4}, "other": set()}
    executed = {name: {"share.py": frozenset(one)} for name, one in lines.items()}
    tests = mutants.Tests(dict.fromkeys(lines, 0.1), executed)
    of = {one.before: tests.of(one) for one in mutants_of(path, tmp_path)}
    assert of["5"] == of["2"] == ["calls"]
    assert of["0.5"] == ["calls", "imports", "other"]


def test_an_edit_elsewhere_keeps_the_draw(changes):
    path, found = changes
    path.write_text(SOURCE.replace("class Point", "LEVEL = 0.5\n\nclass Point"))
    again = mutants_of(path, path.parent)
    assert len(again) == len(found) + 1
    order = [one.id for one in mutants.drawn(found, 0, 99)]
    assert [one.id for one in mutants.drawn(again, 0, 99) if one.id in order] == order
    assert [one.id for one in mutants.drawn(found, 1, 99)] != order


def test_all_mutants_of_a_file_compile():
    source = (ROOT / "src/precall/theory/hull.py").read_bytes()
    found = all_mutants(ROOT, ["src/precall/theory/hull.py"])
    assert len(found) > 50
    for mutant in found:
        assert ast.dump(ast.parse(mutant.applied(source))) != ast.dump(ast.parse(source))


def test_the_published_results_meet_the_mark_and_every_survivor_is_explained():
    rows = json.loads(mutants.RESULTS.read_text())
    reasons = json.loads(mutants.EXPLAINED.read_text())
    survivors = {row["id"] for row in rows if not row["caught"]}
    assert len(rows) >= 150
    assert len(survivors) <= 0.1 * len(rows)
    assert survivors <= set(reasons)
    assert all(len(reason) > 20 for reason in reasons.values())
