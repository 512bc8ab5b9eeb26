"""Every k-nearest-neighbour quantity of two sample sets, from one exact pass over the pairs."""
