"""Pydantic AI's durability socket (all of it public since 2.61): what other capabilities do becomes steps too.

``@durable_operation`` methods and calls to a workspace reach a durability engine in no other way. Model requests and tool
calls stay with the hooks of any capability: the socket gives a stream to the program only when it is over, wants ids on
toolsets, and refuses models and toolsets that a run is given.
"""

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.exceptions import UserError
from pydantic_core import to_jsonable_python

from holdfast.adapters.shared.journaled_calls import Seam
from holdfast.engine.log import log
from holdfast.engine.run.call_site import here_now
from holdfast.engine.steps.call_options import treat

unit_scope: Callable[[], AbstractContextManager[None]] = nullcontext
"""Around what is inside of a step: what it calls is no step then."""

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
        """Each operation as a step: by its name, its arguments, and how often it was called."""

        async def execute(
            self, *, name: str, body: Callable[[], Awaitable[Any]], cache_key: Any, **_: Any
        ) -> Any:
            """The recorded outcome, or that of ``body()``. Pydantic AI asks for operations that may be made twice."""
            request = socket.ModelRequestContextProjection  # has timestamps, and the model call has it anyway
            given = next((part for part in cache_key if isinstance(part, dict)), {"call": cache_key[0]})
            told = {key: value for key, value in given.items() if not isinstance(value, request)}
            arguments = to_jsonable_python(told, bytes_mode="base64")
            return await Seam.get(name).tool_async(treat("idempotent"), name, arguments, body)

    class Engine(socket.BaseDurabilityCapability[Any]):  # type: ignore[no-redef]
        """A durability engine that has only those operations."""

        engine_spec = socket.DurabilityEngineSpec(
            engine_name="Holdfast",
            durable_unit_noun="step",
            durable_container_noun="run",
            codec=socket.JSON_CODEC,
            wrapped_toolset_kinds=frozenset(),
        )

        def for_agent(self, agent: Any) -> Any:
            """Bound to the agent; where the socket refuses it, all else works as well."""
            try:
                return super().for_agent(agent)
            except UserError as refused:
                log().info("what other capabilities of the agent do is not journaled: %s", refused)
                return self

        def _bind_to_agent(self, agent: Any) -> None:
            """No toolset is wrapped the socket's way."""

        @property
        def in_durable_context(self) -> bool:
            return here_now() is not None

        def get_durable_operation_backend(self) -> Backend:
            config = socket.RoleBasedOperationConfig(model=None, event=None, capability=None, tool=None)
            return Backend(agent_name=self.name, config=config)

        async def before_run(self, ctx: Any) -> None:
            """A cancellation token is welcome: a run that was cancelled can be resumed."""

        async def wrap_model_request(self, ctx: Any, *, request_context: Any, handler: Any) -> Any:  # noqa: ARG002
            return await handler(request_context)
