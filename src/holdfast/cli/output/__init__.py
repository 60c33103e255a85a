"""What the command line prints: blocks, lines, colours. The only package that prints."""
