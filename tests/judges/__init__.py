"""Judges that know nothing of how Holdfast works: models, checkers of histories, and other people's tests."""
