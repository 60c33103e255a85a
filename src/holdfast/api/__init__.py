"""What a program holds: ``Run`` and ``AsyncRun``, the store handle, tools, agents and workers.

These are thin facades: a method is one line, and ``engine`` has the rules.
"""
