"""Rules of states: the tree of nodes, how long lists and texts are cut, and how a state is read back."""
