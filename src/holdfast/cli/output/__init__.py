"""What the command line prints: blocks, lines, colours. The only place that prints."""
