"""Rules of model calls: shapes of requests and messages, errors of providers, reasoning."""
