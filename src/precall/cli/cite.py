"""`precall cite`: the papers that introduced each score."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from typing import Annotated

import typer

import precall
from precall.cli.console import emit

PAPERS = (
    (
        "curve, area, F-scores, clusters",
        "Sajjadi et al. (2018)",
        "Assessing Generative Models via Precision and Recall",
    ),
    (
        "classifier curves",
        "Simon et al. (2019)",
        "Revisiting Precision and Recall Definition for Generative Model Evaluation",
    ),
    ("Rényi frontiers", "Djolonga et al. (2020)", "Precision-Recall Curves Using Information Divergence Frontiers"),
    (
        "PR-divergence, rejection",
        "Verine (2024)",
        "Quality and Diversity in Generative Models through the lens of f-divergences",
    ),
    (
        "precision, recall, realism",
        "Kynkäänniemi et al. (2019)",
        "Improved Precision and Recall Metric for Assessing Generative Models",
    ),
    ("density, coverage", "Naeem et al. (2020)", "Reliable Fidelity and Diversity Metrics for Generative Models"),
    (
        "precision and recall cover",
        "Cheema and Urner (2023)",
        "Precision Recall Cover: A Method For Assessing Generative Models",
    ),
    (
        "FID",
        "Heusel et al. (2017)",
        "GANs Trained by a Two Time-Scale Update Rule Converge to a Local Nash Equilibrium",
    ),
    ("KID", "Bińkowski et al. (2018)", "Demystifying MMD GANs"),
    ("Inception Score", "Salimans et al. (2016)", "Improved Techniques for Training GANs"),
    ("sFID", "Nash et al. (2021)", "Generating Images with Sparse Representations"),
    (
        "MAUVE",
        "Pillutla et al. (2021)",
        "MAUVE: Measuring the Gap Between Neural Text and Human Text Using Divergence Frontiers",
    ),
    ("two-sample test", "Lopez-Paz and Oquab (2017)", "Revisiting Classifier Two-Sample Tests"),
    (
        "local curves",
        "Sykes et al. (2024)",
        "Unifying and Extending Precision Recall Metrics for Assessing Generative Models",
    ),
    (
        "symmetric precision and recall",
        "Khayatkhoei and AbdAlmageed (2023)",
        "Emergent Asymmetry of Precision and Recall for Measuring Fidelity and Diversity of Generative Models in High "
        "Dimensions",
    ),
    (
        "P-precision and P-recall",
        "Park and Kim (2023)",
        "Probabilistic Precision and Recall Towards Reliable Evaluation of Generative Models",
    ),
    (
        "clipped density and coverage",
        "Salvy et al. (2026)",
        "Enhanced Generative Model Evaluation with Clipped Density and Coverage",
    ),
    (
        "memorization",
        "Jiralerspong et al. (2023)",
        "Feature Likelihood Divergence: Evaluating the Generalization of Generative Models Using Samples",
    ),
)


AUTHORS = {  # by reference: authors and venue, for BibTeX
    "Sajjadi et al. (2018)": (
        "Sajjadi, Mehdi S. M. and Bachem, Olivier and Lucic, Mario and Bousquet, Olivier and Gelly, Sylvain",
        "Advances in Neural Information Processing Systems",
    ),
    "Simon et al. (2019)": (
        "Simon, Loïc and Webster, Ryan and Rabin, Julien",
        "International Conference on Machine Learning",
    ),
    "Djolonga et al. (2020)": (
        "Djolonga, Josip and Lucic, Mario and Cuturi, Marco and Bachem, Olivier and Bousquet, Olivier and "
        "Gelly, Sylvain",
        "International Conference on Artificial Intelligence and Statistics",
    ),
    "Verine (2024)": ("Verine, Alexandre", "PhD thesis, Université Paris Dauphine-PSL"),
    "Kynkäänniemi et al. (2019)": (
        "Kynkäänniemi, Tuomas and Karras, Tero and Laine, Samuli and Lehtinen, Jaakko and Aila, Timo",
        "Advances in Neural Information Processing Systems",
    ),
    "Naeem et al. (2020)": (
        "Naeem, Muhammad Ferjad and Oh, Seong Joon and Uh, Youngjung and Choi, Yunjey and Yoo, Jaejun",
        "International Conference on Machine Learning",
    ),
    "Cheema and Urner (2023)": (
        "Cheema, Fasil and Urner, Ruth",
        "International Conference on Artificial Intelligence and Statistics",
    ),
    "Heusel et al. (2017)": (
        "Heusel, Martin and Ramsauer, Hubert and Unterthiner, Thomas and Nessler, Bernhard and Hochreiter, Sepp",
        "Advances in Neural Information Processing Systems",
    ),
    "Bińkowski et al. (2018)": (
        "Bińkowski, Mikołaj and Sutherland, Danica J. and Arbel, Michael and Gretton, Arthur",
        "International Conference on Learning Representations",
    ),
    "Salimans et al. (2016)": (
        "Salimans, Tim and Goodfellow, Ian and Zaremba, Wojciech and Cheung, Vicki and Radford, Alec and Chen, Xi",
        "Advances in Neural Information Processing Systems",
    ),
    "Pillutla et al. (2021)": (
        "Pillutla, Krishna and Swayamdipta, Swabha and Zellers, Rowan and Thickstun, John and Welleck, Sean and "
        "Choi, Yejin and Harchaoui, Zaid",
        "Advances in Neural Information Processing Systems",
    ),
    "Lopez-Paz and Oquab (2017)": (
        "Lopez-Paz, David and Oquab, Maxime",
        "International Conference on Learning Representations",
    ),
    "Nash et al. (2021)": (
        "Nash, Charlie and Menick, Jacob and Dieleman, Sander and Battaglia, Peter W.",
        "International Conference on Machine Learning",
    ),
    "Sykes et al. (2024)": ("Sykes, Benjamin and Simon, Loïc and Rabin, Julien", "arXiv:2405.01611"),
    "Khayatkhoei and AbdAlmageed (2023)": (
        "Khayatkhoei, Mahyar and AbdAlmageed, Wael",
        "International Conference on Machine Learning",
    ),
    "Park and Kim (2023)": ("Park, Dogyun and Kim, Suhyun", "International Conference on Computer Vision"),
    "Salvy et al. (2026)": (
        "Salvy, Nicolas and Talbot, Hugues and Thirion, Bertrand",
        "International Conference on Learning Representations",
    ),
    "Jiralerspong et al. (2023)": (
        "Jiralerspong, Marco and Bose, Avishek Joey and Gemp, Ian and Qin, Chongli and Bachrach, Yoram and "
        "Gidel, Gauthier",
        "Advances in Neural Information Processing Systems",
    ),
}


def cite(bibtex: Annotated[bool, typer.Option("--bibtex", help="Print BibTeX entries.")] = False) -> None:
    """List the papers to cite for the scores you report.

    Examples:

    \b
      precall cite
      precall cite --bibtex
    """
    if bibtex:
        emit("\n\n".join([_software(), *map(_entry, PAPERS)]))
        return
    for number, authors, title in PAPERS:
        emit(f"{number}: {authors}, {title}")


def _entry(paper: tuple[str, str, str]) -> str:
    """One paper as a BibTeX entry."""
    number, reference, title = paper
    authors, venue = AUTHORS[reference]
    year = reference[-5:-1]
    key = _key(reference.split()[0]) + year
    kind, field = ("phdthesis", "school") if venue.startswith("PhD thesis, ") else ("inproceedings", "booktitle")
    fields = {"title": f"{{{title}}}", "author": authors, field: venue.removeprefix("PhD thesis, "), "year": year}
    return _formatted(kind, key, {**fields, "note": f"precall: {number}"})


def _key(name: str) -> str:
    """The name of an author as a BibTeX key, in ASCII letters."""
    letters = unicodedata.normalize("NFKD", name).encode("ascii", "ignore").decode()
    return "".join(filter(str.isalpha, letters)).lower()


def _software() -> str:
    fields = {"title": "{precall: precision and recall of generative models}", "author": "{The precall authors}"}
    return _formatted("software", "precall", {**fields, "version": precall.__version__})


def _formatted(kind: str, key: str, fields: Mapping[str, str]) -> str:
    return "\n".join([f"@{kind}{{{key},", *(f"  {name} = {{{value}}}," for name, value in fields.items()), "}"])
