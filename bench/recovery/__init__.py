"""What a kill costs: the same task in real agent frameworks, with their own persistence and with Holdfast.

``task`` is pure data. ``world`` stands outside of all frameworks: the provider, the service that the tools act on, and the log of
both, which is the witness. ``drivers`` are thin programs, one for each framework. ``director`` starts and kills them at seeded places,
``judge`` counts in the log, ``report`` prints, ``plot`` draws. ``make bench-recovery`` runs all of it.
"""
