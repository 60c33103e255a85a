"""The command line: ``holdfast``. One file a command; ``render`` is the only place that prints.

``app`` finds the command and turns every error into ``error:``, ``hint:`` and an exit code; a command asks the
store handle, arranges ``views`` into ``blocks``, and hands those to ``render``.
"""


def main(argv: list[str] | None = None) -> None:
    """Run a command line, of this process by default, and exit with its code."""
    from holdfast.cli.app import app

    app.main(argv)
