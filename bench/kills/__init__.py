"""How much of its position an agent loses when it is killed: 40 streamed model calls, SIGKILL at seeded moments.

``director`` starts and kills; ``agent`` is what it kills; ``witnesses`` judges from the outside: from what the provider
sent and was asked again, from what stands in the bare tables, and from what happened to the world. Run it with
``make kills`` or ``python -m bench.kills --help``.
"""
