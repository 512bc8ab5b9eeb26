"""Every k-nearest-neighbour quantity of two sample sets, from one exact pass over the pairs.

    sweep       the pass itself: `within`, `cross`, `sweep`
    distances   squared distances: bounds from float32 tiles, exact float64 values for close calls
    tallies     nearest neighbours and counts in balls, decided from these bounds
    ball_scores precision, recall, density, coverage, … with intervals, from counts that add up
    scores      `Neighborhoods`: the result of a sweep over all pairs
    ball_sums, one_way    the counts of a shard of fakes in the balls of the reals
    successors  symmetric and clipped scores from the same counts
    probabilistic  precision and recall with soft supports
    influence   the influence of each sample on a score, and the intervals
    cover       the precision-recall curve from the counts
    metrics     the entries of the registry

Expected values under P = Q are exact mathematics and live in `precall.theory.chance`.
"""
