"""Pruning and erasing at work."""
