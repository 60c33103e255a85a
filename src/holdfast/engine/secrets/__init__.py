"""Secrets that a store has in clear, and how they are taken out."""
