"""Every k-nearest-neighbour quantity of two sample sets, from one exact pass over the pairs.

    sweep       the pass itself: `within`, `cross`, `sweep`
    distances   squared distances: bounds from float32 tiles, exact float64 values for close calls
    tallies     nearest neighbours and counts in balls, decided from these bounds
    scores      `Neighborhoods`: precision, recall, density, coverage, … from the counts
    successors  symmetric and clipped scores from the same counts
    probabilistic  precision and recall with soft supports
    influence   the influence of each sample on a score, and the intervals
    cover       the precision-recall curve from the counts
    metrics     the entries of the registry

Expected values under P = Q are exact mathematics and live in `precall.theory.chance`.
"""
