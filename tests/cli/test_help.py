"""Help pages: everyday options first, all of them on request, nothing cut and nothing too wide at 80 columns."""

import re
import subprocess
import sys

import pytest
import typer
from typer.testing import CliRunner

from precall.cli import app
from precall.cli.help_pages import ORDER

EVERYDAY = 10


def commands(group, words=()):
    """All commands and groups, by the words that call them."""
    yield words, group
    for name, one in getattr(group, "commands", {}).items():
        yield from commands(one, (*words, name))


COMMANDS = dict(commands(typer.main.get_command(app)))


@pytest.fixture
def page(monkeypatch):
    for name in ("COLUMNS", "TERMINAL_WIDTH"):
        monkeypatch.setenv(name, "80")

    def shown(words, option="--help"):
        done = CliRunner().invoke(app, [*words, option], prog_name="precall")
        assert done.exit_code == 0, done.output
        return done.stdout

    return shown


def options_of(command):
    return [one for one in command.params if one.param_type_name == "option" and not one.hidden]


def has_all(command):
    return any("--help-all" in one.opts for one in command.params)


def joined(text):
    """The text without its line breaks, which may come after a hyphen."""
    return "".join(text.split())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_no_line_is_too_wide_and_no_description_is_cut(page, words):
    command = COMMANDS[words]
    text = page(words, "--help-all" if has_all(command) else "--help")
    assert max(map(len, text.splitlines())) <= 80
    assert not re.search(r"^ .*\.\.\.$", text, re.MULTILINE)
    for one in (one for one in command.params if not getattr(one, "hidden", False)):
        assert joined(one.help or "") in joined(text), one.name
        assert all(re.search(rf"^ .*{re.escape(name)}\b", text, re.MULTILINE) for name in one.opts if name[0] == "-")
    for one in getattr(command, "commands", {}).values():
        assert joined(one.help.partition("\n\n")[0]) in joined(text)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_values_have_names_instead_of_types(page, words):
    text = page(words, "--help-all" if has_all(COMMANDS[words]) else "--help")
    listed = text[text.index("\nOptions:") :]
    assert not re.search(r"<\w+(\[\w+\])?>|\b(TEXT|INTEGER|FLOAT|PATH|BOOLEAN)\b", listed)


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_help_shows_ten_everyday_options_and_names_the_groups_of_the_others(page, words):
    command, text = COMMANDS[words], page(words)
    everyday = [one for one in options_of(command) if one.rich_help_panel is None and one.name != "help_all"]
    others = [one for one in options_of(command) if one.rich_help_panel is not None]
    assert len(everyday) <= EVERYDAY
    assert all(re.search(rf"^  {one.opts[0]}\b", text, re.MULTILINE) for one in everyday)
    assert not any(re.search(rf"^  {one.opts[0]} ", text, re.MULTILINE) for one in others)
    assert has_all(command) == bool(others)
    for one in others:
        assert one.rich_help_panel in ORDER
        assert joined(one.rich_help_panel) in joined(text.partition("More options:")[2])


def test_former_spellings_are_understood_and_the_new_ones_named(page):
    for name in ("sketch", "merge"):
        done = CliRunner().invoke(app, [name, "--help"], prog_name="precall")
        assert done.exit_code == 0
        assert done.stdout == page(("reference", name))
        assert done.stderr.strip() == f"`precall {name}` is now `precall reference {name}`"


def test_without_docstrings_one_sentence_says_so():
    done = subprocess.run([sys.executable, "-OO", "-c", "import precall.cli"], capture_output=True, text=True)
    assert "Run Python without -OO" in done.stderr.splitlines()[-1]
