"""What ``holdfast watch`` is made of: a child and its signals, what the store tells of it, and when to give up.

``supervisor`` starts and waits; ``books`` looks into the store; ``verdicts`` and ``breaker`` decide, and do nothing else;
``notices`` is what was done, for people and programs.
"""
