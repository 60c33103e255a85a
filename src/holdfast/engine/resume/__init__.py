"""Resuming at work: ends that no attempt recorded, the plan, the recorded command."""
