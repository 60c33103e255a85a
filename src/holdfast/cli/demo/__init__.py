"""The demo behind ``holdfast demo``: an agent, its model, the process that kills it, and the proof.

``agent`` is an ordinary user program. Everything else observes it from outside. The evidence is the journal,
the requests that reached the server, and the ledger file; never the agent's own output alone.
"""
