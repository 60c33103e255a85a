"""Hooks: which events make a notice, what it says, how a webhook is signed, and when it is tried again."""
