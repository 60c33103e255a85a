"""Rules of premises: what a resumed run relies on, and whether it still holds."""
