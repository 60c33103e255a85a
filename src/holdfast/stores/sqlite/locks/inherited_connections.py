"""What a forked child does with connections of its parent that it cannot close."""

import apsw


def make_immortal(connections: tuple[apsw.Connection, ...]) -> None:
    """Keep the objects from ever being finalized, also when the interpreter exits.

    Finalizing closes the connection. Closing one that was in a transaction when the fork happened undoes that
    transaction in the memory that the parent shares with us. The interpreter clears module globals at exit,
    but not an object with one reference too many.
    """
    import ctypes  # loaded only where it is needed: it is slow to load

    for connection in connections:
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))
