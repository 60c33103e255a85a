"""Model calls at work: requests, streams, waiting for a provider, the conversation."""
