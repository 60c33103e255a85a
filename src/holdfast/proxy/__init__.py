"""The recording proxy: model calls of an agent in another program, or in another language, as calls of a run."""
