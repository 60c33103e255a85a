"""CrewAI: crews, flows and agents whose model calls and tool calls are steps of a run.

::

    from holdfast.adapters.crewai import durable

    durable(crew, run="research", effects={"search": "read"}).kickoff(inputs={"topic": "kelp"})

The program builds its crew as usual and calls this again after a crash: finished model calls and tool calls
are not repeated, and the crew continues in the middle of its task. ``HoldfastPersistence`` keeps the states
of flows under ``@persist``.
"""

from holdfast.adapters.shared.journaled_calls import not_installed

try:
    from holdfast.adapters.crewai.durable_crew import Durable, durable
    from holdfast.adapters.crewai.flows import HoldfastPersistence
except ImportError as error:
    raise not_installed("holdfast.adapters.crewai", "crewai", error) from error

__all__ = ["Durable", "HoldfastPersistence", "durable"]
