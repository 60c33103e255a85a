"""Makes the context of a run from its journal."""
