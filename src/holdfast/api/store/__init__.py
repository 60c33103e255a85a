"""The store handle, by subject."""
