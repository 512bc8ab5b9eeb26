"""What mkdocs does not do by itself: formulas as MathML, and pages and pictures that lie outside docs/.

mkdocs calls these functions by their names (mkdocs.yml, `hooks`).
"""

from __future__ import annotations

import html
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from latex2mathml.converter import convert
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File

sys.path[:0] = [str(Path(__file__).parents[1]), str(Path(__file__).parents[1] / "src")]
from tools.reference_pages import reference_pages  # noqa: E402

if TYPE_CHECKING:
    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
OUTSIDE = {"changelog.md": "CHANGELOG.md", "contributing.md": "CONTRIBUTING.md", "security.md": "SECURITY.md"}
DOCS = ROOT / "docs"
REFERENCE = reference_pages()
LONG, PICTURES = 2100, 20  # words and pictures of a page from which its sections are folded
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(((?:\.\./)+[^)#\s]+)[^)]*\)")
FORMULA = re.compile(r'<(span|div) class="arithmatex">\\[(\[](.*?)\\[)\]]</\1>', re.DOTALL)


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Expand folders in the navigation, and add the pages that it does not name."""
    docs = Path(config.docs_dir)
    pages = sorted(path.relative_to(docs).as_posix() for path in docs.rglob("*.md"))
    config.nav = _expanded(config.nav, [*pages, *REFERENCE])
    left = [page for page in pages if page not in _named(config.nav)]
    config.nav += [{"More": left}] if left else []
    return config


def _expanded(entry: Any, pages: list[str]) -> Any:
    """The navigation with the pages of a folder in place of its name; index.md comes first."""
    if isinstance(entry, dict):
        return {title: _expanded(inside, pages) for title, inside in entry.items()}
    if isinstance(entry, list):
        expanded = [_expanded(one, pages) for one in entry]
        return [one for inside in expanded for one in (inside if isinstance(inside, list) else [inside])]
    if entry == "reference/":
        return _reference()
    if entry.endswith("/"):
        return sorted((page for page in pages if page.startswith(entry)), key=lambda page: ("index" not in page, page))
    return entry


def _reference() -> list[Any]:
    """The first page of the Python reference, then the pages of each package."""
    parts: dict[str, list[str]] = {}
    for page in REFERENCE:
        parts.setdefault(page.removesuffix(".md").split("/")[1], []).append(page)
    return [*parts.pop("index"), *({f"precall.{room}": pages} for room, pages in parts.items())]


def _named(entry: Any) -> set[str]:
    """All pages in a navigation."""
    inside = entry.values() if isinstance(entry, dict) else entry if isinstance(entry, list) else ()
    return {entry} if isinstance(entry, str) else {name for one in inside for name in _named(one)}


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the pages, the pictures and the examples that lie outside docs/."""
    for name, path in OUTSIDE.items():
        files.append(File.generated(config, name, content=(ROOT / path).read_text(encoding="utf-8")))
    for name, content in REFERENCE.items():
        files.append(File.generated(config, name, content=content))
    for path in (*sorted((ROOT / "experiments").rglob("*.png")), *sorted((ROOT / "examples").glob("*.py"))):
        files.append(File.generated(config, path.relative_to(ROOT).as_posix(), abs_src_path=str(path)))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Let links to files outside docs/ lead to their place on the site."""
    up = "../" * page.file.src_uri.count("/")
    for name, path in OUTSIDE.items():
        markdown = re.sub(rf"\]\((?:\.\./)*{re.escape(path)}", f"]({up}{name}", markdown)
    markdown = re.sub(r"\]\((?:\.\./)+(experiments/[^)]+\.png|examples/[^)]+\.py)", rf"]({up}\1", markdown)
    if page.file.src_uri in OUTSIDE:
        return markdown.replace("](docs/", "](")
    return LINK.sub(lambda match: _kept(match, DOCS / page.file.src_uri), markdown)


def _kept(match: re.Match[str], page: Path) -> str:
    """A link, or only its text if it leads to a file of the repository that is not on the site."""
    target = (page.parent / match[2]).resolve()
    return match[1] if target.exists() and DOCS not in target.parents else match[0]


def on_page_content(html: str, *, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Write formulas as MathML, which browsers display without a script, and fold the sections of long pages."""
    plain = page.file.src_uri.startswith("reference/")
    html = FORMULA.sub(lambda match: f"${match[2]}$" if plain else _mathml(match), html)
    return html if plain else _folded(html)


def _folded(html: str) -> str:
    """A long page with its sections folded: one that would be much taller than ten screens."""
    if len(re.sub(r"<[^>]*>", " ", html).split()) < LONG and html.count("<img") < PICTURES:
        return html
    return re.sub(
        r"(<h2.*?</h2>)(.*?)(?=<h2|\Z)",
        r"\1<details><summary>Show this section</summary>\2</details>",
        html,
        flags=re.DOTALL,
    )


def _mathml(match: re.Match[str]) -> str:
    """One formula, inline or in a line of its own."""
    formula = html.unescape(match[2]).strip()
    try:
        return convert(formula, display="inline" if match[1] == "span" else "block")
    except Exception as error:
        raise PluginError(f"not a formula that latex2mathml can convert: {formula}") from error
