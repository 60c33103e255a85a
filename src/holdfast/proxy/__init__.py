"""The recording proxy: model calls of any program, in any language, as calls of a run."""
