"""`precall cite`: the papers that introduced each score."""

from __future__ import annotations

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


def cite() -> None:
    """List the papers to cite for the scores you report.

    Example:

      precall cite
    """
    for number, authors, title in PAPERS:
        emit(f"{number}: {authors}, {title}")
