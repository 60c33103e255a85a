"""What third parties need to prove themselves: the suite every store must pass, and the crash matrix for agents.

Nothing here is imported by the rest of the package; it needs pytest.
"""
