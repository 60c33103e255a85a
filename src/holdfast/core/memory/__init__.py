"""Rules of memory: terms of texts, ranking, and repeated facts."""
