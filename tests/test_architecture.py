"""Who may import whom, how deep the rooms are, how long files are, how much is typed, and how light imports are.

An import inside a function counts like any other, and so does one under `TYPE_CHECKING` where circles are looked for.
Results reach the room that draws them through one function, `precall.printing.drawing`.
"""

import ast
import importlib
import pkgutil
import re
import statistics
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

import precall

ROOT = Path(precall.__file__).parent
# what each room may import; every room may import itself, and the files beside the rooms
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
    "cli": {"theory", "metrics", "tune", "improve", "report", "samples", "encoders", "engines", "integrations"},
}
# the files whose results print, draw and write themselves, through `drawing`
DRAWN = {"precall.metrics.scores.results", "precall.metrics.protocols.tradeoff"}
HEAVY = {"torch", "matplotlib", "sklearn", "plotly", "pandas"}


@cache
def trees():
    """The syntax tree of every file, by module name."""
    found = {}
    for path in sorted(ROOT.rglob("*.py")):
        parts = path.relative_to(ROOT).with_suffix("").parts
        name = ".".join(("precall", *(part for part in parts if part != "__init__")))
        found[name] = (path, ast.parse(path.read_text()))
    return found


@cache
def walk(tree):
    """All nodes of a tree."""
    return list(ast.walk(tree))


@cache
def imports(module, typing=False):
    """Modules of precall that a module imports (also for typing, if asked)."""
    _, tree = trees()[module]
    typing_only = {
        id(child)
        for node in walk(tree)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING"
        for child in ast.walk(node)
    }
    found = set()
    for node in walk(tree):
        if id(node) in typing_only and not typing:
            continue
        for name in _names(node):
            while name and name not in trees():
                name = name.rpartition(".")[0]
            if name not in ("", "precall", module):
                found.add(name)
    return found


def _names(node):
    """What a node imports; `import_module` of a string counts."""
    if isinstance(node, ast.Call) and ast.unparse(node.func) == "import_module":
        return [one.value for one in node.args if isinstance(one, ast.Constant)]
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    return [f"{node.module}.{alias.name}" for alias in node.names] if isinstance(node, ast.ImportFrom) else []


def room_of(module):
    part = module.split(".")[1] if "." in module else ""
    return part if part in ALLOWED else None


def test_rooms_import_only_what_they_may():
    wrong = [
        f"{module} imports {other}"
        for module in trees()
        if room_of(module)
        for other in imports(module)
        if room_of(other) not in {None, room_of(module), *ALLOWED[room_of(module)]}
    ]
    assert not wrong


def test_no_files_name_each_other_in_a_circle():
    """Imports for typing count."""

    def reachable(start):
        seen, left = set(), [start]
        while left:
            for other in imports(left.pop(), typing=True):
                if other not in seen:
                    seen.add(other)
                    left.append(other)
        return seen

    assert [module for module in trees() if module in reachable(module)] == []


def test_only_results_reach_the_room_above_them_through_a_string():
    assert {module for module, (_, tree) in trees().items() if "drawing" in _called(tree)} == DRAWN
    named = {
        module
        for module, (_, tree) in trees().items()
        for node in walk(tree)
        if isinstance(node, ast.Constant) and str(node.value).startswith("precall.report.")
    }
    assert named == {"precall.printing"}


def _called(tree):
    return {node.func.id for node in walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)}


@cache
def floor(module):
    """How many floors of its room a file stands on."""
    below = [other for other in imports(module) if room_of(other) == room_of(module)]
    return 1 + max(map(floor, below), default=0)


def test_the_metrics_room_has_eight_floors():
    """`assess` and `Reference` stand on sketches and shards, and these on a run, the sweep, its tallies and threads."""
    floors = {module: floor(module) for module in trees() if room_of(module) == "metrics"}
    assert max(floors.values()) == floors["precall.metrics.assessing.assessment"] == 8


MOST_FILES = 10


def test_rooms_of_metrics_are_small():
    """A room has at most ten files, and `metrics` itself none but its docstring and its table of names."""
    metrics = ROOT / "metrics"
    rooms = {path.name: len(list(path.glob("*.py"))) for path in metrics.iterdir() if path.name != "__pycache__"}
    assert {room: files for room, files in rooms.items() if files > MOST_FILES} == {}
    assert [path.name for path in metrics.glob("*.py")] == ["__init__.py"]


def test_every_room_is_known():
    rooms = {path.name for path in ROOT.iterdir() if path.is_dir() and path.name != "__pycache__"}
    assert rooms <= set(ALLOWED)


@pytest.mark.parametrize("room", sorted(room for room in ALLOWED if (ROOT / room).exists()))
def test_every_room_says_what_belongs_there_and_what_does_not(room):
    said = ast.get_docstring(trees()[f"precall.{room}"][1])
    assert re.search(r"\b(no|not|belongs?)\b", said)
    assert len(said) > 150


# -------------------------------------------------------------------------------------------------- size and types


def test_no_file_is_long():
    long = {
        path.relative_to(ROOT).as_posix() for path, _ in trees().values() if len(path.read_text().splitlines()) > 500
    }
    assert not long


def functions():
    return [
        node
        for _, tree in trees().values()
        for node in walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    ]


def test_functions_are_short():
    lengths = []
    for node in functions():
        body = node.body[1:] if ast.get_docstring(node) is not None else node.body
        if body:
            lengths.append(body[-1].end_lineno - body[0].lineno + 1)
    assert statistics.median(lengths) <= 4
    assert sorted(lengths)[int(0.9 * len(lengths))] <= 15


def annotations(tree):
    for node in walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            spec = node.args
            given = [*spec.posonlyargs, *spec.args, *spec.kwonlyargs, spec.vararg, spec.kwarg]
            yield from (one.annotation for one in given if one is not None and one.annotation is not None)
            if node.returns is not None:
                yield node.returns


def aliases_of_any():
    """`Any`, and names that are assigned nothing else."""
    names = {"Any"}
    for _, tree in trees().values():
        for node in tree.body:
            value = getattr(node, "value", None)
            if isinstance(node, ast.Assign | ast.AnnAssign) and isinstance(value, ast.Name) and value.id == "Any":
                targets = node.targets if isinstance(node, ast.Assign) else [node.target]
                names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names


@pytest.mark.parametrize(("room", "most"), [("theory", 0.05), (None, 0.08)])
def test_little_is_typed_as_anything(room, most):
    loose = aliases_of_any()
    found = [
        isinstance(one, ast.Name) and one.id in loose
        for module, (_, tree) in trees().items()
        if room is None or room_of(module) == room
        for one in annotations(tree)
    ]
    assert sum(found) < most * len(found)


# ----------------------------------------------------------------------------------------------------------- doors

# what only the two doors may call, and the files that must for a reason of their own
TOUCHING = {"open", "write_text", "write_bytes", "read_text", "read_bytes", "replace", "rename", "walk", "rglob"}
DOOR_FILES = {"precall.files", "precall.samples.reading"}
OTHERWISE = {
    "precall.cli.listing",  # reads its own list of papers
    "precall.cli.console",  # opens the null device
    "precall.cli.results_cache",  # reads precall's own source and its cache
    "precall.cli.tune",  # reads its run folder
    "precall.encoders.inventory",  # lists the cache
    "precall.report.page",  # reads its own template
    "precall.schemas",  # reads its own schema
    "precall.samples.arrays",  # opens a member of an archive
    "precall.samples.images",  # opens an image in memory
    "precall.tune.data",  # reads data sets
    "precall.sealing",  # reads the cache, and verifies it
    "precall.tune.checkpoints",  # keeps the previous checkpoint
    "precall.tune.log",  # appends to its log
}


def touches(tree):
    """Calls in a file that read, write or list files: `open(…)`, `path.open(…)`, `os.replace(…)`, …"""
    for node in walk(tree):
        if not isinstance(node, ast.Call):
            continue
        base = node.func.value if isinstance(node.func, ast.Attribute) else None
        name = node.func.attr if base is not None else getattr(node.func, "id", "")
        system = isinstance(base, ast.Name) and base.id == "os"
        if isinstance(base, ast.Name) and base.id in ("reading", "webbrowser"):
            continue  # through the door, or no file
        # strings and dataclasses have a `replace` too, syntax trees a `walk`
        if name in TOUCHING and (system or name not in ("replace", "rename", "walk")):
            yield ast.unparse(node.func)


def test_files_are_touched_only_through_the_two_doors():
    found = {module: names for module, (_, tree) in trees().items() if (names := list(touches(tree)))}
    assert set(found) == DOOR_FILES | OTHERWISE, found


# ----------------------------------------------------------------------------------------------------------- names


def test_the_documents_for_developers_name_files_that_exist():
    project = ROOT.parent.parent
    for page in ("docs/architecture.md", "CONTRIBUTING.md"):
        named = re.findall(r"`((?:src/precall/)?[a-z]\w*(?:/\w+)*\.py)`", (project / page).read_text())
        places = (ROOT, project)
        assert [name for name in named if not any((place / name).is_file() for place in places)] == []
        assert len(named) > 10


def test_no_module_has_the_name_of_what_its_package_offers():
    """Importing the module would put it in the place of the function."""
    for name in ("", ".metrics", ".tune", ".tune.models", ".improve"):
        package = importlib.import_module(f"precall{name}")
        offered = {one for names in package._MODULES.values() for one in names.split()}
        assert not {module.name for module in pkgutil.iter_modules(package.__path__)} & offered


def test_one_name_is_one_class():
    """No two public classes share a name."""
    places = {}
    for module, (_, tree) in trees().items():
        for node in tree.body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places.setdefault(node.name, []).append(module)
    assert {name: modules for name, modules in places.items() if len(modules) > 1} == {}


def test_private_names_of_other_files_are_left_alone():
    """Nothing in the package, the experiments, the benchmarks or the examples imports an underscore name."""
    project = ROOT.parent.parent
    folders = [ROOT, *(project / name for name in ("experiments", "benchmarks", "examples"))]
    wrong = [
        f"{path.name}: {alias.name}"
        for folder in folders
        for path in folder.rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("precall")
        for alias in node.names
        if alias.name.startswith("_") and not alias.name.startswith("__")
    ]
    assert not wrong


def strangers(node, owned=frozenset()):
    """Accesses to underscore attributes that no enclosing class defines, torch's own aside."""
    if isinstance(node, ast.ClassDef):
        owned = owned | {child.name for child in ast.walk(node) if isinstance(child, ast.FunctionDef)}
        owned = owned | {one.target.id for one in node.body if isinstance(one, ast.AnnAssign)}
    if isinstance(node, ast.Attribute) and node.attr.startswith("_") and not node.attr.startswith("__"):
        base = node.value.id if isinstance(node.value, ast.Name) else None
        if base not in ("self", "cls", "torch") and node.attr not in owned:
            yield ast.unparse(node)
    for child in ast.iter_child_nodes(node):
        yield from strangers(child, owned)


def test_underscore_methods_are_called_inside_their_class():
    assert {module: found for module, (_, tree) in trees().items() if (found := list(strangers(tree)))} == {}


def test_every_public_name_resolves():
    for info in pkgutil.walk_packages([str(ROOT)], prefix="precall."):
        if info.name.endswith("__main__"):
            continue  # importing it is running it
        module = importlib.import_module(info.name)
        for name in getattr(module, "__all__", ()):
            assert getattr(module, name) is not None, f"{info.name}.{name}"
    for name in precall.__all__:
        assert getattr(precall, name) is not None


# ------------------------------------------------------------------------------------------------------ light imports


def loaded_with(module):
    """Heavy packages that come with importing a module, in a fresh interpreter."""
    code = f"import sys, {module}; print(*sorted({HEAVY | {'scipy', 'numpy'}} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_import_is_light():
    """Nothing at all comes with `import precall`, which keeps it under 0.1 CPU seconds."""
    assert loaded_with("precall") == set()
    code = "import time; start = time.process_time(); import precall; print(time.process_time() - start)"
    times = [
        float(subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout) for _ in range(3)
    ]
    assert min(times) < 0.1


@pytest.mark.parametrize("module", ["precall.cli", "precall.theory.spectrum", "precall.metrics.assessing.assessment"])
def test_heavy_packages_load_when_used(module):
    assert loaded_with(module) <= {"numpy", "scipy"}
