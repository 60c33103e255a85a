"""The context: the text that tells a model about a run."""
