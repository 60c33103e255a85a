"""Rules of loop detection."""
