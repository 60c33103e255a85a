"""Rules of exports, imports, moves and handoffs."""
