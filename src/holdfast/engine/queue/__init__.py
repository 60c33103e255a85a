"""The queue at work: claims, children, and runs that are due."""
