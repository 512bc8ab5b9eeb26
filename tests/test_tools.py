"""What `make check`, `make audit` and `make coverage` decide by."""

import importlib.util
import socket
import subprocess
import sys
from email.message import Message
from pathlib import Path

import pytest

from benchmarks.common import peak_memory

ROOT = Path(__file__).parents[1]


def tool(name):
    found = importlib.util.spec_from_file_location(name, ROOT / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    return module


audit = tool("audit")


@pytest.mark.parametrize(
    ("expression", "allowed"),
    [
        ("MIT", True),
        ("BSD-3-Clause AND Zlib", True),
        ("MIT AND (GPL-3.0-only OR BSD-3-Clause)", True),
        ("MIT AND GPL-3.0-only", False),
        ("GPL-2.0-only OR LGPL-3.0-only", False),
        ("unknown", False),
    ],
)
def test_a_licence_is_allowed_if_each_part_has_an_allowed_alternative(expression, allowed):
    assert audit.is_allowed(expression) is allowed


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ([("License-Expression", "MIT-CMU"), ("License", "something else")], "MIT-CMU"),
        ([("Classifier", "License :: OSI Approved :: BSD License"), ("License", "long text")], "BSD-3-Clause"),
        ([("License", "Apache 2.0 License")], "Apache-2.0"),
        ([("License", "MIT\n\nPermission is hereby granted")], "MIT"),
        ([("Name", "nothing said")], "unknown"),
    ],
)
def test_licences_are_read_from_all_forms_of_metadata(fields, expected):
    message = Message()
    for name, value in fields:
        message[name] = value
    assert audit.spdx(message) == expected


def test_the_licences_of_all_dependencies_are_allowed_and_listed(monkeypatch):
    assert {"numpy", "torch", "pyarrow"} <= set(audit.declared())
    assert "pytest" not in audit.declared()
    assert "contourpy" in audit.installed_with(["matplotlib"])
    assert audit.refused() == []
    assert audit.page(audit.PAGE.read_text()) == audit.PAGE.read_text()
    monkeypatch.setattr(audit, "ALLOWED", audit.ALLOWED - {"MIT"})
    assert any(sentence.startswith("typer") for sentence in audit.refused())


def test_the_row_of_a_package_that_is_not_installed_stays(monkeypatch):
    text = audit.PAGE.read_text()
    usual = audit.licence
    monkeypatch.setattr(audit, "licence", lambda name: None if name == "faiss-cpu" else usual(name))
    assert audit.page(text) == text


def test_what_could_not_be_looked_up_is_not_called_safe():
    safe = {"name": "a", "version": "1", "vulns": []}
    bad = {"name": "b", "version": "2", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2.1"]}]}
    skipped = {"name": "c", "skip_reason": "not found on PyPI"}
    assert audit.summary([safe]) == ([], None)
    assert audit.summary([safe, bad]) == (["b 2: PYSEC-1, mended in 2.1"], None)
    assert audit.summary([safe, skipped]) == ([], "1 of 2 packages could not be looked up: c")


def test_without_a_network_the_audit_says_so(monkeypatch, capsys):
    def unreachable(*_, **__):
        raise OSError("no route")

    monkeypatch.setattr(audit, "find_spec", lambda name: object())
    monkeypatch.setattr(socket, "create_connection", unreachable)
    assert audit.vulnerabilities() == ([], "pypi.org cannot be reached")
    monkeypatch.setattr("sys.argv", ["audit.py"])
    audit.main()
    assert "not known (pypi.org cannot be reached)" in capsys.readouterr().out
    monkeypatch.setattr("sys.argv", ["audit.py", "--strict"])
    with pytest.raises(SystemExit):
        audit.main()


def test_rooms_with_too_few_executed_lines_are_named():
    line_coverage = pytest.importorskip("coverage") and tool("line_coverage")
    source = line_coverage.SOURCE
    files = {
        source / "lazy.py": ({1, 2}, set()),
        source / "theory" / "hull.py": (set(range(100)), set(range(6))),
        source / "metrics" / "neighbors" / "sweep.py": (set(range(100)), set(range(5))),
    }
    rooms = line_coverage.by_room(files)
    assert rooms == {"beside": (2, 2), "metrics": (100, 95), "theory": (100, 94), "all": (202, 191)}
    assert line_coverage.too_low(rooms) == ["theory: 94.0 %, at least 95 % are required"]


def test_the_peak_memory_of_a_process_is_its_own(monkeypatch):
    """Not that of the process that started it, which `ru_maxrss` includes."""
    large = bytearray(b"1" * (400 << 20))
    code = "from benchmarks.common import peak_memory; print(peak_memory())"
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    child = int(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)
    assert 1 << 20 < child < 200 << 20 < len(large) < peak_memory()
