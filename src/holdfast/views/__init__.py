"""Read models that every surface shares: records arranged for people.

They know events, views and texts; they know no store, no terminal and no clock. Each is a NamedTuple with
stable fields, and ``json_shape.as_plain`` gives its JSON form, which ``--json`` prints.
"""
