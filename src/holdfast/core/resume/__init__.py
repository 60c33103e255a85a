"""Rules of resuming: the plan, and the command that a run was started with."""
