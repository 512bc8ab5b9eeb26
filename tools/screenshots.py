"""The pictures of reports in docs/images: the demo, texts and a table, as a browser shows them.

    python tools/screenshots.py                 makes the reports, then the pictures (about two minutes)
    python tools/screenshots.py FOLDER          takes the demo's report from FOLDER
    python tools/screenshots.py --if-stale      makes them only if the page is drawn differently now

It needs Chromium and Playwright. docs/images/sources.sha256 says from which page the pictures were made. They are
reduced to 128 colours, which keeps them below 200 kB.
"""

from __future__ import annotations

import hashlib
import io
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image
from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
LARGEST = 200_000  # bytes
SOURCES = IMAGES / "sources.sha256"


def drawn_by() -> str:
    """SHA-256 of what draws the page and takes its pictures."""
    files = [*sorted((ROOT / "src" / "precall" / "report").glob("page*")), Path(__file__)]
    return hashlib.sha256(b"".join(path.read_bytes() for path in files)).hexdigest()


def main() -> None:
    """Make the pictures."""
    IMAGES.mkdir(exist_ok=True)
    if "--if-stale" in sys.argv and SOURCES.exists() and SOURCES.read_text().strip() == drawn_by():
        return
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))))
    with tempfile.TemporaryDirectory() as temporary, sync_playwright() as playwright:
        folder = Path(temporary)
        given = [Path(word) for word in sys.argv[1:] if not word.startswith("--")]
        demo = given[0] if given else reported(folder / "demo", "demo")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page(viewport={"width": 1280, "height": 900})
        for name, report in {"demo": demo, "texts": texts(folder), "table": table(folder)}.items():
            pictures(page, name, (report / "report.html").resolve().as_uri())
        browser.close()
    SOURCES.write_text(drawn_by() + "\n")


def pictures(page: Page, name: str, address: str) -> None:
    """The top of a report in a wide and, for the demo, in a narrow window, and the parts below it."""
    page.set_viewport_size({"width": 1280, "height": 900})
    page.goto(address)
    write(page.screenshot(), f"{name}-1280")
    heading = page.get_by_role("heading", name="Differences by column" if name == "table" else "Missed", exact=True)
    start = heading.bounding_box()["y"] - page.locator("#detail").bounding_box()["y"] - 12
    page.evaluate("document.querySelector('nav').style.position = 'static'")
    write(page.locator("#detail").screenshot(), f"{name}-samples", top=round(start), height=900)
    if name == "demo":
        write(page.locator("#trade-off").screenshot(), "demo-curves", height=980)
        page.set_viewport_size({"width": 400, "height": 860})
        page.goto(address)
        write(page.screenshot(), "demo-400")


def write(picture: bytes, name: str, *, top: int = 0, height: int = 10_000) -> None:
    """Write a part of a picture with few colours."""
    image = Image.open(io.BytesIO(picture)).convert("RGB")
    image = image.crop((0, top, image.width, min(top + height, image.height)))
    image = image.quantize(128, dither=Image.Dither.NONE)
    image.save(IMAGES / f"{name}.png", optimize=True)
    size = (IMAGES / f"{name}.png").stat().st_size
    print(f"{name}.png: {size:,} bytes")
    if size > LARGEST:
        sys.exit(f"{name}.png is larger than {LARGEST:,} bytes")


# ------------------------------------------------------------------------------------------------------------- reports


def reported(out: Path, *words: str) -> Path:
    """Run a command of precall that writes a report."""
    subprocess.run([sys.executable, "-m", "precall", *words, "--out", out], check=True, stdout=subprocess.DEVNULL)
    return out


def written(path: Path, lines: list[str]) -> str:
    """Write lines to a file and return its name."""
    path.write_text("\n".join(lines) + "\n")
    return str(path)


def texts(folder: Path) -> Path:
    """A model that never writes about herons, and repeats itself."""
    rng = np.random.default_rng(0)
    animals, deeds = ["cat", "dog", "heron"], ["sleeps", "waits", "sings", "hunts"]
    places = ["in the garden", "by the river", "under the old bridge"]

    def sentences(animals: list[str], deeds: list[str]) -> list[str]:
        return [f"The {rng.choice(animals)} {rng.choice(deeds)} {rng.choice(places)}, {i} m away." for i in range(300)]

    real = written(folder / "real.txt", sentences(animals, deeds))
    fake = written(folder / "fake.txt", sentences(animals[:2], deeds[:2]))
    return reported(folder / "texts", "assess", "--real", real, "--fake", f"our model={fake}")


def table(folder: Path) -> Path:
    """A synthetic table in which age and income are independent."""
    rng = np.random.default_rng(0)

    def people(income: Callable[..., np.ndarray]) -> list[str]:
        age = rng.integers(18, 80, 500)
        pay, job = income(age), rng.choice(["nurse", "teacher", "engineer"], 500)
        return ["age,income,job", *(f"{a},{p:.0f},{j}" for a, p, j in zip(age, pay, job, strict=True))]

    real = written(folder / "real.csv", people(lambda age: 1000 + 40 * age + rng.normal(0, 200, 500)))
    fake = written(folder / "fake.csv", people(lambda age: 1000 + 40 * rng.permutation(age) + rng.normal(0, 200, 500)))
    return reported(folder / "table", "assess", "--real", real, "--fake", f"our model={fake}", "--show-rows", "--quick")


if __name__ == "__main__":
    main()
