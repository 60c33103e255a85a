"""Pydantic AI's durability API (public since 2.61): makes the work of other capabilities steps too.

``@durable_operation`` methods and workspace calls reach a durability engine in no other way. Model requests
and tool calls use the hooks of any capability instead: this API gives the program a stream only when it is
over, needs ids on toolsets, and refuses models and toolsets that are passed to a run.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UserError
from pydantic_core import to_jsonable_python

from holdfast.adapters.shared.journaled_calls import RunPosition
from holdfast.engine.log import log
from holdfast.engine.run.call_site import here_now
from holdfast.engine.steps.call_options import treat

unit_scope: Callable[[], AbstractContextManager[None]] = nullcontext
"""Wraps code inside of a step, whose calls are then no steps."""

try:
    from pydantic_ai import durable_exec as socket
    from pydantic_ai.durable_exec import durable_unit_scope
except ImportError:

    class Engine(AbstractCapability[Any]):
        """Without a socket, a capability like any other."""

        name: str
else:
    unit_scope = durable_unit_scope

    class Backend(socket.JournalCallableOperationBackend[None]):
        """Each operation as a step: identified by its name, its arguments, and its count."""

        async def execute(
            self, *, name: str, body: Callable[[], Awaitable[Any]], cache_key: Any, **_: Any
        ) -> Any:
            """The recorded outcome, or that of ``body()``.

            Pydantic AI requires operations that may be repeated.
            """
            # it has timestamps, and the model call records it anyway
            request = socket.ModelRequestContextProjection
            given = next((part for part in cache_key if isinstance(part, dict)), {"call": cache_key[0]})
            told = {key: value for key, value in given.items() if not isinstance(value, request)}
            arguments = to_jsonable_python(told, bytes_mode="base64")
            return await RunPosition.get(name).tool_async(treat("idempotent"), name, arguments, body)

    class Engine(socket.BaseDurabilityCapability[Any]):  # type: ignore[no-redef]
        """A durability engine with only those operations."""

        engine_spec = socket.DurabilityEngineSpec(
            engine_name="Holdfast",
            durable_unit_noun="step",
            durable_container_noun="run",
            codec=socket.JSON_CODEC,
            wrapped_toolset_kinds=frozenset(),
        )

        def for_agent(self, agent: Any) -> Any:
            """Bind to the agent; if the API refuses it, all else still works."""
            try:
                return super().for_agent(agent)
            except UserError as refused:
                log().info("what other capabilities of the agent do is not journaled: %s", refused)
                return self

        def _bind_to_agent(self, agent: Any) -> None:
            """No toolset is wrapped in this API's way."""

        @property
        def in_durable_context(self) -> bool:
            return here_now() is not None

        def get_durable_operation_backend(self) -> Backend:
            config = socket.RoleBasedOperationConfig(model=None, event=None, capability=None, tool=None)
            return Backend(agent_name=self.name, config=config)

        async def before_run(self, ctx: Any) -> None:
            """Accepts a cancellation token: a cancelled run can be resumed."""

        async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:  # noqa: ARG002
            return await handler(request_context)
