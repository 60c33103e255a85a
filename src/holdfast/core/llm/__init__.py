"""Rules of model calls: shapes of requests and messages, provider errors, streams, reasoning."""
