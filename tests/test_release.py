"""What a release contains, where its version comes from, and where it is tested.

`make dist` also installs the archives into clean environments and runs the demo there, which takes minutes.
"""

import importlib.util
import json
import os
import re
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from email import message_from_bytes
from pathlib import Path

import numpy as np
import pytest
import yaml

import precall
from precall.encoders import networks, words

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src"
found = importlib.util.spec_from_file_location("dist", ROOT / "tools" / "dist.py")
dist = importlib.util.module_from_spec(found)
found.loader.exec_module(dist)


RECIPE = ROOT / "packaging" / "conda" / "meta.yaml"


@pytest.fixture(scope="module")
def archives(tmp_path_factory):
    """The sdist, and the wheel that is built from it."""
    sdist, wheel = sorted(dist.build(tmp_path_factory.mktemp("dist")), key=lambda path: path.suffix)
    return sdist, wheel


def test_the_wheel_holds_the_package_and_nothing_else(archives):
    with zipfile.ZipFile(archives[1]) as wheel:
        names = {name for name in wheel.namelist() if ".dist-info/" not in name}
    source = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "precall").rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert names == source
    assert {"precall/py.typed", "precall/report/page.html", "precall/report/page.css"} <= names
    pretrained = "precall/encoders/pretrained"
    assert {
        f"{pretrained}/{name}"
        for name in ("efficientnet-lite0.safetensors", "wordpieces.safetensors", "LICENSE", "NOTICE")
    } <= names


def test_the_wheel_declares_version_dependencies_and_command(archives):
    with zipfile.ZipFile(archives[1]) as wheel:
        inside = {Path(name).name: wheel.read(name) for name in wheel.namelist() if ".dist-info/" in name}
    said = message_from_bytes(inside["METADATA"])
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    needed = [line for line in said.get_all("Requires-Dist") if "extra ==" not in line]
    assert said["Version"] == precall.__version__
    assert len(needed) == len(declared["dependencies"])
    assert b"precall = precall.cli:app" in inside["entry_points.txt"]
    assert {"LICENSE", "NOTICE"} <= set(inside)


def test_the_sdist_is_small_and_has_no_tests_or_results(archives):
    with tarfile.open(archives[0]) as sdist:
        folders = {name.split("/")[1] for name in sdist.getnames()}
    assert {"src", "README.md", "LICENSE", "CHANGELOG.md", "pyproject.toml"} <= folders
    assert not folders & {"tests", "experiments", "benchmarks", "docs", ".venv"}
    weights = networks.EFFICIENTNET, words.PIECES
    assert archives[0].stat().st_size < 2e6 + sum(path.stat().st_size for path in weights)


# ------------------------------------------------------------------------------------------------------------- version

WITHOUT_METADATA = """
from importlib.metadata import Distribution, PackageNotFoundError
usual = Distribution.from_name
def from_name(name):
    if name == "precall":
        raise PackageNotFoundError(name)
    return usual(name)
Distribution.from_name = from_name
from precall.cli import app
app(["assess", "--real", "a.npy", "--fake", "b.npy", "--metrics", "fid", "--json"])
"""


def test_a_source_tree_without_metadata_works(tmp_path):
    """As with PYTHONPATH=src, without any installation."""
    for name in "ab":
        np.save(tmp_path / f"{name}.npy", np.random.default_rng(0).normal(size=(40, 2)))
    command = [sys.executable, "-c", WITHOUT_METADATA]
    environment = os.environ | {"PYTHONPATH": str(SOURCE), "PRECALL_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
    assert done.returncode == 0, done.stderr
    (model,) = json.loads(done.stdout)["models"].values()
    assert model["protocol"]["versions"]["precall"] == precall.__version__


def test_the_version_is_written_once():
    """Metadata takes it from the package; the citation file and the changelog repeat it."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert project["project"]["dynamic"] == ["version"]
    assert project["tool"]["hatch"]["version"]["path"] == "src/precall/__init__.py"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert citation["version"] == precall.__version__
    assert re.search(r'version = "(.+?)"', RECIPE.read_text())[1] == precall.__version__
    assert f"rev: v{precall.__version__}" in (ROOT / ".pre-commit-hooks.yaml").read_text()


def test_the_changelog_has_the_release_and_a_place_for_the_next_one():
    headings = re.findall(r"^## (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert headings[0] == "Unreleased"
    assert re.fullmatch(rf"{re.escape(precall.__version__)} - \d{{4}}-\d\d-\d\d", headings[1])


# ----------------------------------------------------------------------------------------------------------- workflows


def test_the_workflow_runs_make_test_on_all_systems_and_versions():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())
    job = workflow["jobs"]["test"]
    assert {name.split("-")[0] for name in job["strategy"]["matrix"]["os"]} == {"ubuntu", "macos", "windows"}
    assert job["strategy"]["matrix"]["python"] == ["3.11", "3.12", "3.13", "3.14"]
    assert any(step.get("run", "").startswith("make test") for step in job["steps"])


def test_what_workflows_make_has_a_target():
    targets = re.findall(r"^(\w+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        jobs = yaml.safe_load(path.read_text())["jobs"].values()
        runs = [step["run"] for job in jobs for step in job["steps"] if "run" in step]
        made = [words[1] for run in runs if (words := run.split())[0] == "make"]
        assert made
        assert set(made) <= set(targets)


def test_a_tag_builds_attests_and_publishes_the_version_that_it_names():
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "release.yml").read_text())
    assert workflow[True] == {"push": {"tags": ["v*"]}}  # `on` is a boolean of YAML
    steps = {
        name: [step.get("uses", "").split("@")[0] for step in job["steps"]] for name, job in workflow["jobs"].items()
    }
    assert "actions/attest-build-provenance" in steps["build"]
    assert "pypa/gh-action-pypi-publish" in steps["publish"]
    assert "actions/deploy-pages" in steps["site"]
    assert workflow["jobs"]["publish"]["needs"] == workflow["jobs"]["site"]["needs"] == "build"
    check = next(step["run"] for step in workflow["jobs"]["build"]["steps"] if "tag" in step.get("name", ""))
    for tag, status in ((f"v{precall.__version__}", 0), ("v99.0.0", 1)):
        done = subprocess.run(["bash", "-c", check], cwd=ROOT, env={**os.environ, "GITHUB_REF_NAME": tag})
        assert done.returncode == status


# ------------------------------------------------------------------------------------------------ other ways to install


def test_the_recipe_needs_what_the_package_needs():
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = re.sub(r"{{.*?}}", "x", re.sub(r"{%.*%}", "", RECIPE.read_text()))
    names = {"matplotlib-base": "matplotlib", "pytorch": "torch"}
    run = [one.split() for one in yaml.safe_load(text)["requirements"]["run"]]
    found = {names.get(name, name) + bound for name, bound in run}
    assert found == {*declared["dependencies"], f"python{declared['requires-python']}"}


def test_the_image_the_recipe_and_the_workflows_agree_with_the_package():
    """Every version of Python that is named is supported, and every file that is named is there."""
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tested = {one.rpartition(" ")[2] for one in declared["classifiers"] if re.search(r":: 3\.\d+$", one)}
    image = re.search(r"^FROM python:([\d.]+)-slim$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)[1]
    used = {str(one) for one in re.findall(r"python-version: ['\"]?([\d.]+)", _workflows())} | {image}
    assert used <= tested
    recipe = yaml.safe_load(re.sub(r"{{.*?}}", "x", re.sub(r"{%.*%}", "", RECIPE.read_text())))
    assert (RECIPE.parent / recipe["source"]["path"] / "pyproject.toml").is_file()
    assert (ROOT / recipe["about"]["license_file"]).is_file()
    assert recipe["about"]["license"] == declared["license"]
    assert recipe["build"]["entry_points"] == ["precall = precall.cli:app"]
    assert all((ROOT / one).is_file() for one in declared["license-files"])


def test_what_is_tested_is_pinned():
    """Every direct dependency of an extra has a version in constraints.txt that its bound allows."""
    from packaging.requirements import Requirement

    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    lines = [line for line in (ROOT / "constraints.txt").read_text().splitlines() if not line.startswith("#")]
    pinned = {name.lower().replace("_", "-"): version for name, _, version in (line.partition("==") for line in lines)}
    assert len(pinned) == len(lines)
    for one in map(Requirement, {*declared["dev"], *declared["docs"]} - {"precall[docs]"}):
        assert one.specifier.contains(pinned[one.name.lower().replace("_", "-")]), one


def _workflows():
    return "\n".join(path.read_text() for path in (ROOT / ".github" / "workflows").glob("*.yml"))


def test_the_urls_name_one_repository():
    urls = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["urls"]
    assert {"Source", "Documentation", "Issues", "Changelog"} == set(urls)
    assert urls["Issues"].startswith(urls["Source"])
    assert urls["Source"] in (ROOT / ".pre-commit-hooks.yaml").read_text()


def test_the_hook_and_the_image_run_commands_that_exist():
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())
    assert (hook["entry"], hook["language"], hook["pass_filenames"]) == ("precall assess", "python", False)
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copied = [word for line in lines if line.startswith("COPY") for word in line.split()[1:-1]]
    assert all((ROOT / name).exists() for name in copied)
    assert {"pyproject.toml", "README.md", "LICENSE", "src"} <= set(copied)  # what the build reads
    assert 'ENTRYPOINT ["precall"]' in lines
    assert next(i for i, line in enumerate(lines) if line.startswith("USER")) < lines.index('ENTRYPOINT ["precall"]')
