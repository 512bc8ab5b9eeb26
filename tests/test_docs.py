"""What the documents say works: their commands run, their Python runs, the generated pages are current."""

import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner

from committee import FEW
from precall import Reference
from precall.cli import app

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
# pages that a person wrote; the others are generated, or repeat files of the repository
PAGES = sorted(
    path
    for path in (ROOT / "docs").rglob("*.md")
    if path.parent.name not in ("cards", "reference") and path.name != "cli.md"
)


def blocks(text, language):
    return re.findall(rf"```{language}\n(.*?)```", text, re.DOTALL)


def test_readme_opens_with_the_two_commands():
    assert re.findall(r"^make (\w+)", blocks(README, "")[0], re.MULTILINE) == ["demo", "test"]
    makefile = (ROOT / "Makefile").read_text()
    for target in ("demo", "test", "check", "bench", "docs"):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE)


def test_readme_python_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    for block in blocks(README, "python"):
        exec(compile(block, "README.md", "exec"), names)
    assert names["report"].scores["density"].interval is not None
    assert names["report"].verdict
    assert (tmp_path / "report.html").exists()


@pytest.mark.parametrize(
    "page",
    [page for page in PAGES if "```python\n" in page.read_text()],
    ids=lambda page: page.relative_to(ROOT / "docs").as_posix(),
)
def test_the_python_of_every_page_runs(page, workplace, monkeypatch):
    """The blocks of one page share their names. Networks that follow a panel are hardly trained."""
    monkeypatch.setattr("precall.improve.distillation.STEPS", 20)
    if page.stem == "results":  # it reads what an assessment wrote
        run("assess", "--real", "real.npy", "--fake", "ours=a.npy", "--quick", "--out", "report")
    names = {}
    text = page.read_text().replace('engine="ray"', 'engine="local"')  # Ray is in tests/engines
    for block in blocks(text, "python"):
        exec(compile(block, page.name, "exec"), names)


def test_modules_and_targets_that_pages_name_exist():
    makefile = (ROOT / "Makefile").read_text()
    for page in PAGES:
        for line in (line for block in blocks(page.read_text(), "console") for line in block.splitlines()):
            words = line.split()
            assert words[0] in ("precall", "python", "make"), f"{page.name}: nothing runs {line!r}"
            if words[0] == "python":
                assert (ROOT / (words[2].replace(".", "/") + ".py")).exists(), line
            if words[0] == "make":
                assert re.search(rf"^{words[1]}:", makefile, re.MULTILINE), line


def commands():
    """Every `precall …` line of the README, of the pages, and of the help pages' examples."""
    texts = [README[: README.index("## Five tasks")] + README[README.index("## What you get") :]]
    texts += [page.read_text() for page in PAGES]  # the five tasks of the README have a test of their own
    shown = [line for text in texts for block in blocks(text, "console") for line in block.splitlines()]
    pages = (ROOT / "docs" / "cli.md").read_text()
    shown += [line.strip() for line in pages.splitlines() if line.startswith("    precall ")]
    return sorted({line for line in shown if line.startswith("precall ") and line != "precall demo"})


def make_images(folder, rng):
    for name in ("data", "samples", "other", "images"):
        (folder / name).mkdir()
        for i in range(60):
            Image.fromarray(rng.integers(0, 255, (6, 6, 3), dtype=np.uint8)).save(folder / name / f"{i}.png")
    for name, same in (("a", "samples"), ("b", "other")):  # results of the same samples come from the cache
        shutil.copytree(folder / same, folder / name)
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        for path in (folder / "images").iterdir():
            archive.write(path, path.name)


def make_features(folder, rng):
    for name in ("real", "fake", "a", "b"):
        np.save(folder / f"{name}.npy", rng.normal(size=(60, 2)))
    for name in ("real", "fake"):
        (folder / name).mkdir()
        for i in range(2):
            np.save(folder / name / f"part-{i}.npy", rng.normal(size=(60, 2)))
    np.savez(folder / "statistics.npz", mu=np.zeros(2), sigma=np.eye(2))
    reference = Reference.fit(rng.normal(size=(60, 2)))
    for name in ("one", "two", "part1", "part2"):
        reference.sketch(rng.normal(size=(30, 2))).save(folder / f"{name}.sketch")


def make_tables_and_texts(folder, rng):
    for name in ("real", "fake", "train", "test"):
        rows = "".join(f"{'fm'[i % 2]},{rng.normal()}\n" for i in range(120))
        (folder / f"{name}.csv").write_text("sex,x\n" + rows)
    for name in ("human", "samples_task"):  # as evaluation harnesses of language models log them
        lines = "".join(f'{{"resps": [["a line of text, number {i}"]]}}\n' for i in range(60))
        (folder / f"{name}.jsonl").write_text(lines)
    for name in ("real", "fake"):
        lines = "".join(f'{{"text": "a line of {name} text, number {rng.integers(1000)}"}}\n' for _ in range(60))
        (folder / f"{name}.jsonl").write_text(lines)
    for name in ("refs", "a", "base", "tuned"):
        lines = "".join(f'{{"prompt": "question {i}", "answer": "reply {i} {rng.integers(99)}"}}\n' for i in range(60))
        (folder / f"{name}.jsonl").write_text(lines)
    for name in ("answers", "other"):
        lines = "".join(f'{{"answer": "a line of text, number {i}"}}\n' for i in range(60))
        (folder / f"{name}.jsonl").write_text(lines)
    for name in ("real", "fake"):
        lines = "".join(f"a line of {name} text, number {rng.integers(1000)}\n" for _ in range(60))
        (folder / f"{name}.txt").write_text(lines)


def make_shards(folder):
    """The images in four tar files, as many in two Parquet files, and a reference of the data."""
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    files = sorted((folder / "images").iterdir())
    for i in range(4):
        with tarfile.open(folder / f"train-000{i}.tar", "w") as shard:
            for path in files[i::4]:
                shard.add(path, path.name)
    (folder / "parts").mkdir()
    for i in range(2):
        images = [{"bytes": path.read_bytes(), "path": path.name} for path in files[i::2]]
        parquet.write_table(pyarrow.table({"image": images}), folder / "parts" / f"part-{i}.parquet")
    Reference.fit(folder / "data", encoder="pixels").save(folder / "data.precall")


@pytest.fixture(scope="session")
def furnished(tmp_path_factory):
    """A folder with what the examples name, and the cache that all examples share."""
    folder, rng = tmp_path_factory.mktemp("furnished"), np.random.default_rng(0)
    cache = tmp_path_factory.getbasetemp().parent / "cache of the examples"
    (folder / "report").mkdir()
    make_images(folder, rng)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PRECALL_CACHE", str(cache))
        make_features(folder, rng)
        make_tables_and_texts(folder, rng)
        make_shards(folder)
    return folder, cache


@pytest.fixture
def workplace(furnished, tmp_path, monkeypatch):
    """A copy of the folder with what the examples name, as the working directory.

    Its files are hard links: precall replaces files and never writes into one.
    """
    folder, cache = furnished
    shutil.copytree(folder, tmp_path, dirs_exist_ok=True, copy_function=os.link)
    monkeypatch.setenv("PRECALL_CACHE", str(cache))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("command", commands())
def test_documented_commands_run(command, workplace, python, monkeypatch):
    """In a terminal of 80 columns, where no line is longer unless a program reads it."""
    monkeypatch.setenv("COLUMNS", "80")
    words = ["local" if word == "ray" else word for word in shlex.split(command)[1:]]  # Ray is in tests/engines
    if words[0] == "tune" and "--steps" not in words:  # a whole training takes minutes
        words += ["--steps", "20"]
    if words[0] == "report":  # it reads what an assessment wrote
        run("assess", "--real", "real.npy", "--fake", "a.npy", "--metrics", "clusters", "--out", "report")
    done = stopped_when_ready(python, *words) if "--serve" in words else run(*words)
    expected = (0, 3) if any(word.startswith("--min-") for word in words) else (0,)  # a gate may rightly fail
    assert done.returncode in expected, done.stderr
    if not {"--json", "--bibtex", "--serve"} & set(words):
        assert [line for line in done.stdout.splitlines() if len(line) > 80] == []
    assert "Traceback" not in done.stderr


TASKS = dict(re.findall(r"^### (.+?)\n(.*?)(?=^##)", README[README.index("## Five tasks") :], re.DOTALL | re.MULTILINE))
WRITES = {  # what a cold reader has afterwards
    "Compare two folders of images": "report/report.html",
    "Check a synthetic table": "report/report.html",
    "Compare texts": "report/report.html",
    "Use precision and recall in a training loop": None,
    "Plan a budget and spend it": "kept.txt",
}


def test_the_readme_has_the_five_tasks():
    assert list(TASKS) == list(WRITES)


@pytest.mark.whole_panel
@pytest.mark.parametrize("task", TASKS)
def test_a_cold_reader_does_each_task_with_three_commands_or_ten_lines(task, workplace, capsys):
    (shell,) = blocks(TASKS[task], "console") or [""]
    (python,) = blocks(TASKS[task], "python") or [""]
    assert len(shell.splitlines()) <= 3
    assert len(python.splitlines()) <= 10
    assert bool(shell) != bool(python)
    exec(compile(python, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    for command in shell.splitlines():
        done = run(*shlex.split(command)[1:])
        assert done.returncode == 0, done.stderr
        printed += done.stdout
    assert printed.strip()
    assert WRITES[task] is None or (workplace / WRITES[task]).read_text()


def run(*words):
    """Run a command in this process, because importing torch again takes seconds."""
    done = CliRunner().invoke(app, words)
    return subprocess.CompletedProcess(words, done.exit_code, done.stdout, done.stderr)


def stopped_when_ready(python, *words):
    """Run a command that serves until it is interrupted, and interrupt it as soon as it says where.

    SIGTERM acts like Ctrl-C, which a process cannot receive if it was started in the background of a shell.
    """
    environment = {**os.environ, "BROWSER": "true"}
    command = [*python(), "-m", "precall", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as serving:
        try:
            first = serving.stderr.readline()
            serving.terminate()
            _, rest = serving.communicate(timeout=300)
        finally:
            serving.kill()
    return subprocess.CompletedProcess(words, serving.returncode, stderr=first + rest)


def test_generated_pages_are_current(python):
    """Help pages, the table of metrics, the cards."""
    done = subprocess.run([*python(), ROOT / "docs" / "generate.py", "--check"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


BUDGET = 50_000  # words in all that people read; the help pages are generated
BOOKS = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
READ = [*BOOKS, *(path for path in sorted((ROOT / "docs").rglob("*.md")) if path.name != "cli.md")]


def words(path):
    """As `wc -w` counts them."""
    return len(path.read_text().split())


def test_the_documentation_is_short_enough_to_be_read():
    assert sum(map(words, READ)) <= BUDGET


@pytest.mark.parametrize(
    "page", [*READ, ROOT / "docs" / "cli.md", ROOT / "SECURITY.md"], ids=lambda page: page.relative_to(ROOT).as_posix()
)
def test_pages_say_in_their_first_line_who_should_read_them(page):
    title, first = [line for line in page.read_text().splitlines() if line][:2]
    assert title.startswith("# ")
    assert re.fullmatch(r"\*For .+\.\*", first), f"{page.name} does not begin with '*For … .*'"


def test_internal_links_lead_somewhere():
    for page in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md")):
        for target in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


BENCHMARKS = sorted(path.stem for path in (ROOT / "benchmarks").glob("*.py") if "def main" in path.read_text())
# in tests/metrics, tests/faults, tests/encoders and tests/engines, where results matter
TESTED_ELSEWHERE = {"curve_error", "neighbors", "attack", "real_weights", "scale"}


@pytest.mark.smoke
@pytest.mark.parametrize("name", sorted({*BENCHMARKS} - TESTED_ELSEWHERE - {"mutants"}))
def test_benchmarks_run_small(name, run_module, python, monkeypatch):
    """Networks that follow a panel are hardly trained, and the panel of which members are left out is small."""
    monkeypatch.setattr("benchmarks.common.PYTHON", python())
    if name == "left_out":
        monkeypatch.setattr("precall.metrics.members.panel.PANEL", FEW)
    monkeypatch.setattr("precall.improve.distillation.STEPS", 20)
    assert run_module(f"benchmarks.{name}", "--smoke").strip()


@pytest.mark.smoke
def test_mutants_run_small():
    """In a new process: it imports precall from copies of the project, and its forks must not inherit threads."""
    command = [sys.executable, "-m", "benchmarks.mutants", "--smoke"]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_make_bench_runs_every_benchmark():
    """All but the script that compares numbers before and after a change, the one that needs weights which have to be
    fetched first, and those with a target of their own."""
    makefile = (ROOT / "Makefile").read_text()
    names = re.search(r"for name in ([\w ]+); do .* -m benchmarks", makefile)[1].split()
    own = re.findall(r"^\t\$\(BIN\)/python -m benchmarks\.(\w+)", makefile, re.MULTILINE)
    assert sorted([*names, *own, "same_numbers", "real_weights"]) == BENCHMARKS


def test_the_pictures_are_of_the_page_as_it_is_drawn_now():
    """`make docs` makes them again."""
    spec = importlib.util.spec_from_file_location("screenshots", ROOT / "tools" / "screenshots.py")
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.SOURCES.read_text().strip() == tool.drawn_by(), "run `make docs`, or `python tools/screenshots.py`"
