"""Hooks: keeps them in a store, finds notices in journals, and delivers them."""
