"""Makes and records model calls: requests, streamed answers, waits for a provider, the conversation."""
