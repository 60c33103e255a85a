"""Budgets at work, and where prices come from."""
