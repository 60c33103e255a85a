"""Rules of questions to people and of promises between runs."""
