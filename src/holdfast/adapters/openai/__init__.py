"""What frameworks that are built on the OpenAI client share: its types, and its answers as plain data."""
