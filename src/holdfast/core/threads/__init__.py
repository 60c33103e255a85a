"""Rules of chains: checkpoints kept for another framework."""
