"""Stores. A store knows rows, transactions and its driver; it does not know what the bytes mean."""
