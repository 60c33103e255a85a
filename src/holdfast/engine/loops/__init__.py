"""Loop detection at work."""
