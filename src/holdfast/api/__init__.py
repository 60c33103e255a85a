"""What a program holds: ``Run`` and ``AsyncRun``, the store handle, tools, agents and workers.

Thin facades over the same rules: a method is one line, and ``engine`` has its meaning.
"""
