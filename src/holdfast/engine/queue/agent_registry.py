"""The agents of this process, by name: ``@holdfast.agent`` adds each."""

from typing import Any, Final

agents: Final[dict[str, Any]] = {}
