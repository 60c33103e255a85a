"""The same agent on Holdfast and on each peer: ``make bench-peers``.

An agent does n steps, each of which returns 4 KB of text, and keeps all of them. Each peer keeps it as its own documentation says,
in a process of its own, which kills itself when n steps are durable; a fresh process then goes on from the store. Drivers are thin:
what is measured, and when, is the same code for all (``task.py``).
"""
