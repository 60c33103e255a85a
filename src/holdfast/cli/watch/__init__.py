"""The parts of ``holdfast watch``.

A child and its signals, the store's view of it, and the decision to give up.

``supervisor`` starts and waits; ``progress`` reads the store; ``verdicts`` and ``breaker`` only decide;
``notices`` reports, to people and programs.
"""
