"""Figure 5 (right) of Sajjadi et al. (2018), on 20 Newsgroups: topics of a corpus are dropped one after the other.

    python -m experiments.sajjadi_2018.figure_5_text --archive 20_newsgroups.tar.xz [--smoke] [--out DIR]

The paper takes MultiNLI and a sentence encoder. This stand-in takes posts of 20 topics, without headers and quotes,
in 50 latent semantic components that were fitted to other posts. P has all topics and Q the first i. Topics overlap in
these features, so recall is not i/20: the exact curve comes from labels (`common.added_classes`). n = 2,000, one seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING

import numpy as np
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from experiments.common.added_classes import Labelled, curves, errors, posteriors, setting
from experiments.common.arguments import parser
from experiments.common.newsgroups import body, read_posts
from experiments.common.parallel import each
from experiments.common.program import plain, sheet_of, unit
from experiments.common.saving import save
from experiments.common.summaries import Row

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TOPICS, METRICS = (1, 2, 5, 10, 15, 20), ("clusters", "simon", "auto")


def features(archive: Path, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Components and topics of a random half of the posts; the other half fits the components."""
    posts = [(group, body(text)) for group, text in read_posts(archive)]
    posts = [(group, text) for group, text in posts if len(text) > 200]
    order = np.random.default_rng(seed).permutation(len(posts))
    fit, rest = order[: len(order) // 2], order[len(order) // 2 :]
    words = TfidfVectorizer(sublinear_tf=True, min_df=5, stop_words="english", max_features=20_000)
    encoder = make_pipeline(words, TruncatedSVD(50, random_state=0), Normalizer()).fit([posts[i][1] for i in fit])
    groups = {name: i for i, name in enumerate(sorted({group for group, _ in posts}))}
    return encoder.transform([posts[i][1] for i in rest]), np.array([groups[posts[i][0]] for i in rest])


def compute(archive: Path, *, smoke: bool, jobs: int) -> Row:
    posts = Labelled(*features(archive, seed=0))
    truth, n = posteriors(posts), 200 if smoke else 2000
    metrics, topics = (METRICS[:1], TOPICS[3::2]) if smoke else (METRICS, TOPICS)
    cases = [(setting(posts, truth, 20, count, n, 0), 0, metrics) for count in topics]
    rows = list(each(curves, cases, jobs=jobs))
    table = {name: {"share": errors(rows, name), "exact": errors(rows, name, "exact")} for name in rows[0]["curves"]}
    return {"n": n, "accuracy": (truth.argmax(1) == posts.labels).mean(), "errors": table, "rows": rows}


def draw(results: Row, sheet: Figure) -> None:
    names = list(results["rows"][0]["curves"])
    for panel, name in zip(sheet.subplots(1, len(names)), names, strict=True):
        for row in results["rows"]:
            panel.plot(*row["curves"][name]["curve"], label=f"{row['classes']} topics")
        unit(panel, name)
    panel.legend(fontsize=6)


def main(arguments: Sequence[str] | None = None) -> None:
    made = parser(__doc__, smoke="200 posts, two numbers of topics", jobs=1)
    made.add_argument("--archive", type=Path, required=True, help="20_newsgroups.tar.xz, or another archive of it")
    options, started = made.parse_args(arguments), process_time()
    found = compute(options.archive, smoke=options.smoke, jobs=options.jobs)
    results = plain({"smoke": options.smoke, **found, "seconds": process_time() - started}, 4)
    print(results["accuracy"], results["errors"])
    save(
        options.out,
        "figure_5_text",
        results,
        figure=partial(sheet_of, draw, results, (10, 2.8), "Sajjadi et al. (2018), Fig. 5"),
        indent=None,
    )


if __name__ == "__main__":
    main()
