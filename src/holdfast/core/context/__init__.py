"""Rules of the context: the text with which a fresh model continues a run."""
