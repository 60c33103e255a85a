"""Test tools for third parties: the suite that every store must pass, and the crash matrix for agents.

The rest of the package imports nothing from here; it needs pytest.
"""
