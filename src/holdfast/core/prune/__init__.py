"""Rules of pruning: the plan, compaction, and what must stay the same."""
