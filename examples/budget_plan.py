"""Plan how many draws per sample to spend, then spend them on a generator."""

import numpy as np
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis

import precall
from precall.improve import Ratio, plan, sample

rng = np.random.default_rng(0)
real = rng.normal(size=(500, 2))


def generator(n, rng):
    """Draw n samples from the model, which is shifted and too wide."""
    return 1.3 * rng.normal(size=(n, 2)) + [1.0, 0.0]


fake = generator(500, rng)
report = precall.assess(real=real, fake=fake, metrics=("quadratic",))
offered = plan(report, budgets=[1, 1.5, 2, 3])
print(offered)

budget = offered.least_budget(precision=0.8, recall=0.5).supported
print(f"precision 0.8 at recall 0.5 takes {budget:.2f} draws per sample")

samples, labels = np.concatenate([real, fake]), np.arange(1000) < 500
# any classifier with probabilities gives a ratio
ratio = Ratio.from_classifier(QuadraticDiscriminantAnalysis().fit(samples, labels))
drawn = sample(generator, ratio, budget=budget, n=500, seed=1)
print(f"{drawn.draws} draws for {len(drawn.samples)} samples")
