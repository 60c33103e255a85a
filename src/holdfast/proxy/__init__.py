"""The recording proxy: model calls of an agent that is another program, in any language, as calls of a run."""
