"""Rules of states: the tree of nodes, how lists are cut, and how a state is read back."""
