"""The demonstration behind ``holdfast demo``: an agent, the model it asks, the one who kills it, and the proof.

``agent`` is an ordinary user's program. Everything else stands outside of it and only watches: the journal, what
the server was asked, and the ledger file are the evidence, not what the agent says of itself.
"""
