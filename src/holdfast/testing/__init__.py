"""Test tools for third parties: the suite that every store must pass, and the crash matrix for agents.

In the rest of the package only ``holdfast demo`` uses it, for its children and its kills. The suite and the
fixture need pytest.
"""
