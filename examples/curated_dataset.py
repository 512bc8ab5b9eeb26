"""Keep the better two thirds of a synthetic data set, and check the result on data that did not choose it."""

import numpy as np

import precall
from precall.improve import select

rng = np.random.default_rng(0)
real, check = rng.normal(size=(2, 500, 4))
synthetic = rng.normal(size=(1000, 4))
synthetic[:300] += 3  # 30 % of the synthetic samples are far from the data

kept = select(real=real, fake=synthetic, budget=1.5, estimator="linear")
curated = synthetic[kept.indices]
print(kept)

before = rng.permutation(synthetic)[: len(curated)]  # scores are comparable at equal sizes
for name, samples in (("before", before), ("after", curated)):
    scores = precall.assess(real=check, fake=samples, metrics=("neighbors",)).scores
    print(f"{name:6}: {len(samples)} samples, precision {scores['precision']}, recall {scores['recall']}")
