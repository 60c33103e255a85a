"""The HTTP API beneath the page: JSON for other front ends, documented as OpenAPI.

Every answer is the JSON form of a read model that the page and ``--json`` of the command line show. A reader
that follows ``/api/events`` by seq, or ``/live`` by ``Last-Event-ID``, misses nothing.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from holdfast.api.store.store import Store
from holdfast.errors import Misuse, UnknownPoint
from holdfast.model.fork_edits import Editable
from holdfast.model.named_tuple import NamedTuple
from holdfast.ui import json_answers as answers
from holdfast.ui.pages import Pages
from holdfast.ui.records import Records
from holdfast.ui.run_page import effects_of
from holdfast.views.acts import act_lines
from holdfast.views.artifacts import artifact_lines
from holdfast.views.diff import DiffPage, arrange_diff
from holdfast.views.event_detail import EventDetail, event_detail
from holdfast.views.json_shape import as_plain
from holdfast.views.lineage import branch_lines
from holdfast.views.resume_plan import Launch, ResumeLines, arrange
from holdfast.views.runs import run_line
from holdfast.views.timeline import Timeline

_EVENTS_MAX: Final = 500
_ROWS_MAX: Final = 500
_RUNS_MAX: Final = 200

Query = Mapping[str, str]


class Parameter(NamedTuple):
    """A parameter in the address."""

    name: str
    kind: str = "string"
    is_needed: bool = False
    about: str = ""


class Endpoint(NamedTuple):
    """One address that is read."""

    answer: Callable[["JsonApi", Query], Any]
    about: str
    parameters: tuple[Parameter, ...] = ()


class JsonApi:
    """Answers of the API, as plain data."""

    def __init__(self, store: Store, records: Records, pages: Pages) -> None:
        self._store, self._records, self._pages = store, records, pages

    def get(self, name: str, query: Query) -> Any:
        """The answer of an endpoint. Misuse for a parameter that it does not take, or that has no value."""
        endpoint = ENDPOINTS.get(name)
        if endpoint is None:
            raise Misuse(problem=f"there is no /api/{name}", advice=f"there are: {', '.join(ENDPOINTS)}")
        known = {one.name: one for one in endpoint.parameters}
        if unknown := sorted(query.keys() - known.keys()):
            raise Misuse(
                problem=f"/api/{name} takes no {', '.join(unknown)[:80]}",
                advice=f"it takes {', '.join(known) or 'nothing'}",
            )
        for one in endpoint.parameters:
            if one.is_needed and not query.get(one.name):
                raise Misuse(problem=f"{one.name} is missing", advice=f"/api/{name}?{one.name}=…")
            if one.kind == "integer" and not query.get(one.name, "0").isdecimal():
                raise Misuse(problem=f"{one.name} is no number", advice="use a whole number from 0")
        return as_plain(endpoint.answer(self, query))

    def runs(self, query: Query) -> answers.Runs:
        statuses = [query["status"]] if query.get("status") else []
        limit = _number(query, "limit", 50, _RUNS_MAX)
        found = self._store.overview(
            prefix=query.get("prefix", ""), statuses=statuses, skip=_number(query, "skip", 0), limit=limit
        )
        return {"store": self._store.url, "runs": [run_line(one, now=self._store.now()) for one in found]}

    def run(self, query: Query) -> answers.Run:
        run = query["run"]
        look = self._records.look(run)
        return {
            "line": run_line(look.overview, now=self._store.now()),
            "lives": look.record.lives(look.info),
            "notes": look.record.notes,
            "rows": len(look.record),
        }

    def rows(self, query: Query) -> answers.Rows:
        look = self._records.look(query["run"])
        first, number = _number(query, "from", 0), _number(query, "limit", 100, _ROWS_MAX)
        in_doubt = {doubt.key for doubt in look.doubts}
        return {
            "rows": look.record.rows(first, first + number, look.info, in_doubt),
            "from": first,
            "total": len(look.record),
        }

    def events(self, query: Query) -> answers.Events:
        run, after = query["run"], _number(query, "after", 0)
        number = _number(query, "limit", 100, _EVENTS_MAX)
        events = self._store.events(run, after_seq=after, upto_seq=after + number)
        head = self._store.get(run).head
        if not events and after + number < head:  # a compacted stretch is longer than a page
            events = self._store.events(run, after_seq=after)[:number]
        return {"events": Timeline().lines(events), "head": head}

    def event(self, query: Query) -> EventDetail:
        run, seq = query["run"], _number(query, "seq", 0)
        found = self._store.events(run, after_seq=seq - 1, upto_seq=seq, whole=True) if seq else []
        if not found:
            raise UnknownPoint(run=run, what=f"event #{seq}", last_point=0, head=self._store.get(run).head)
        return event_detail(run, found[0], self._store.content(found[0]))

    def checkpoints(self, query: Query) -> answers.Checkpoints:
        return {"checkpoints": self._records.look(query["run"]).record.checkpoints}

    def state(self, query: Query) -> answers.State:
        run = query["run"]
        look = self._records.look(run)
        lines = [line for line in look.record.checkpoints if line.kept]
        wanted = _number(query, "point", lines[-1].point if lines else 0)
        found = next((line for line in reversed(lines) if line.point <= wanted), None)
        if found is None:
            raise UnknownPoint(run=run, what=f"state at point {wanted}", last_point=0, head=look.info.head)
        event = self._store.events(run, after_seq=found.seq - 1, upto_seq=found.seq, whole=True)[0]
        return {"checkpoint": found, "state": self._store.content(event).get("state")}

    def needs(self, _: Query) -> answers.Needs:
        return {"needs": self._pages.needs()}

    def effects(self, query: Query) -> answers.Effects:
        return {"effects": effects_of(self._records.look(query["run"]))}

    def plan(self, query: Query) -> ResumeLines:
        return arrange(self._store.resume_plan(query["run"]), Launch((), "", {}))

    def artifacts(self, query: Query) -> answers.Artifacts:
        return {"artifacts": artifact_lines(self._store.artifacts(query["run"]))}

    def lineage(self, query: Query) -> answers.Lineage:
        tree = self._store.lineage(query["run"])
        statuses = {name: self._store.get(name).status for name in tree.names()}
        return {"tree": branch_lines(tree, statuses, self._store.givers())}

    def people(self, query: Query) -> answers.People:
        run, store = query["run"], self._store
        record = self._records.look(run).record
        labels = store.labels(run)
        return {
            "acts": act_lines(record.by_people, store.pins_of(run), labels, store.acts(run)),
            "labels": labels,
        }

    def editable(self, query: Query) -> Editable:
        return self._store.editable(query["place"])

    def diff(self, query: Query) -> DiffPage:
        return arrange_diff(self._store.diff(query["a"], query["b"]))

    def context(self, query: Query) -> answers.Context:
        made = self._store.context(query["run"])
        return {"run": query["run"], "text": str(made)}

    def search(self, query: Query) -> answers.Hits:
        return {"hits": self._store.search(query["q"], _number(query, "limit", 10, 100))}


def _number(query: Query, name: str, default: int, most: int = 10**15) -> int:
    return min(most, int(query[name])) if query.get(name) else default


_RUN: Final = Parameter("run", is_needed=True, about="The id of a run; a child's has slashes.")
_LIMIT: Final = Parameter("limit", "integer", about="How many at most.")

ENDPOINTS: Final[dict[str, Endpoint]] = {
    "runs": Endpoint(
        JsonApi.runs,
        "The runs, newest first.",
        (Parameter("prefix"), Parameter("status"), Parameter("skip", "integer"), _LIMIT),
    ),
    "run": Endpoint(JsonApi.run, "A run: its line, its attempts, its notes.", (_RUN,)),
    "rows": Endpoint(
        JsonApi.rows,
        "The steps of a run, with what happened between them.",
        (_RUN, Parameter("from", "integer"), _LIMIT),
    ),
    "events": Endpoint(
        JsonApi.events,
        "The events after a seq, oldest first. Ask again with the last seq to go on.",
        (_RUN, Parameter("after", "integer", about="The seq of the last event that you have."), _LIMIT),
    ),
    "event": Endpoint(JsonApi.event, "One event in full.", (_RUN, Parameter("seq", "integer", True))),
    "checkpoints": Endpoint(JsonApi.checkpoints, "The saved states of a run.", (_RUN,)),
    "state": Endpoint(
        JsonApi.state, "The state at a point, by default the latest.", (_RUN, Parameter("point", "integer"))
    ),
    "needs": Endpoint(JsonApi.needs, "What needs a person, the most urgent first."),
    "effects": Endpoint(JsonApi.effects, "The effects of a run, from intent to outcome.", (_RUN,)),
    "plan": Endpoint(JsonApi.plan, "What starting a run again would do.", (_RUN,)),
    "artifacts": Endpoint(JsonApi.artifacts, "The files of a run.", (_RUN,)),
    "lineage": Endpoint(JsonApi.lineage, "The forks and handoffs that a run belongs to.", (_RUN,)),
    "people": Endpoint(
        JsonApi.people, "What people did with a run, and the names that they gave to points.", (_RUN,)
    ),
    "editable": Endpoint(
        JsonApi.editable,
        "The inputs, the state and the messages that a fork of a place would begin with.",
        (Parameter("place", is_needed=True, about="RUN, RUN@44, RUN@label or RUN@#1203."),),
    ),
    "diff": Endpoint(
        JsonApi.diff,
        "The differences between two places.",
        (
            Parameter("a", is_needed=True, about="RUN, RUN@44, RUN@label or RUN@#1203."),
            Parameter("b", is_needed=True),
        ),
    ),
    "context": Endpoint(JsonApi.context, "What a fresh model needs to continue a run.", (_RUN,)),
    "search": Endpoint(JsonApi.search, "Events that match words.", (Parameter("q", is_needed=True), _LIMIT)),
}
