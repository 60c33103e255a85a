"""Rules of calls: identity, arguments, drift, and effects in doubt."""
