"""The documents keep their word: every test, module and section they or the docstrings name exists."""

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ERRATA = (ROOT / "docs" / "errata.md").read_text(encoding="utf-8")
THEORY = (ROOT / "docs" / "theory.md").read_text(encoding="utf-8")
RUNS = len(re.findall(r"^\| RUN-", ERRATA, flags=re.M))
IDS = [
    f"{work}-{i}"
    for work, last in {"SAJ": 3, "SIM": 7, "DJO": 12, "VER": 56, "RUN": RUNS}.items()
    for i in range(1, last + 1)
]
VERDICTS = {"wrong", "loose", "inconsistent", "convention", "typo", "note", "correct", "not reproduced"}
ROWS = [[cell.strip() for cell in line.strip("|").split("|")] for line in ERRATA.splitlines() if line.startswith("| ")]
ROWS = [row for row in ROWS if row[0] != "id"]
HEADINGS = set(re.findall(r"^#{2,} (.+)$", THEORY, flags=re.M))


def functions(path):
    """Names of the functions a file defines, without importing it."""
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}


def sources():
    """(file, text) of every source file, its line breaks undone."""
    for path in sorted((ROOT / "src").rglob("*.py")):
        yield path.relative_to(ROOT), re.sub(r"\s*\n\s*", " ", path.read_text(encoding="utf-8"))


def test_every_erratum_has_exactly_one_row():
    assert Counter(row[0] for row in ROWS) == Counter(IDS)


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0])
def test_a_row_is_complete_and_its_tests_exist(row):
    assert len(row) == 6, "a bar inside a formula splits the row: write \\lvert, \\mid or \\Vert"
    name, where, _, right, verdict, shown = row
    assert where
    assert right
    assert verdict in VERDICTS
    named = re.findall(r"`(tests/[\w/]+\.py)::(test_\w+)`", shown)
    assert re.sub(r"`[^`]+`|,|\s", "", shown) == ("" if named else "reading")
    for path, test in named:
        assert test in functions(path), f"{name}: {path} has no {test}"


def test_almost_everything_is_shown_by_a_test():
    assert [row[0] for row in ROWS if row[5] == "reading"] == ["SAJ-2"]


def test_what_the_index_of_experiments_contradicts_is_listed_here():
    """A figure whose verdict is `contradicts` has a row of the kind "not reproduced"."""
    index = (ROOT / "docs" / "experiments.md").read_text(encoding="utf-8")
    places = " ".join(row[1] for row in ROWS if row[4] == "not reproduced")
    contradicted = re.findall(r">((?:Fig|Tab|Sec|Prop)\w*\. [^ :,]+)[^<]*: <b>contradicts", index)
    assert contradicted
    assert [item for item in contradicted if item not in places] == []


def test_errata_cited_in_the_code_exist():
    for path, text in sources():
        for cited in re.findall(r"\b((?:SAJ|SIM|DJO|VER)-\d+)\b", text):
            assert cited in IDS, f"{path} cites {cited}"


def test_sections_cited_in_the_code_are_headings():
    cited = [
        (path, section)
        for path, text in sources()
        for sections in re.findall(r"docs/theory\.md, ([^.;:)\"]+)", text)
        for section in sections.split(" and ")
    ]
    assert len(cited) > 20
    assert [(str(path), section) for path, section in cited if section.strip() not in HEADINGS] == []


def test_sections_of_the_theory_name_code_and_tests_that_exist():
    parts = re.split(r"^## ", THEORY, flags=re.M)[1:]
    for part in parts:
        title = part.splitlines()[0]
        if title == "Sources":
            continue
        last = part.strip().splitlines()[-1]
        assert re.match(r"\*Code:\* .+ \*Tests:\* .+", last), f"{title} does not say where it is"
        for module in re.findall(r"`(precall(?:\.\w+)+)`", last):
            assert (ROOT / "src" / (module.replace(".", "/") + ".py")).is_file(), f"{title} names {module}"
        for path in re.findall(r"`(tests/[\w/]+\.py)`", last):
            assert (ROOT / path).is_file(), f"{title} names {path}"


def test_names_are_defined_in_the_module_that_the_theory_names():
    checked = 0
    for names, module in re.findall(r"((?:`[\w.]+`(?:, | and )?)+) in `(precall(?:\.\w+)+)`", THEORY):
        tree = ast.parse((ROOT / "src" / (module.replace(".", "/") + ".py")).read_text(encoding="utf-8"))
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef | ast.ClassDef)}
        for name in re.findall(r"`([\w.]+)`", names):
            if not name.startswith("precall."):
                assert set(name.split(".")) <= defined, f"{module} has no {name}"
                checked += 1
    assert checked > 15


def test_links_inside_the_documents_lead_somewhere():
    anchors = {heading.lower().replace(" ", "-") for heading in HEADINGS}
    assert set(re.findall(r"\]\(#([^)]+)\)", THEORY)) <= anchors
    for document in (THEORY, ERRATA):
        for target in re.findall(r"\]\((\w+\.md)\)", document):
            assert (ROOT / "docs" / target).is_file()
