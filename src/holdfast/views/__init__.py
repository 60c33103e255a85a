"""Read models that every surface shares: what is recorded, arranged for the eye.

They know events, views and words; they know no store, no terminal and no clock. Each is a NamedTuple with stable
fields, and ``plain.as_plain`` gives its JSON shape: what ``--json`` prints, field by field.
"""
