"""Rules of memory: words, ranking, and repeats of a fact."""
