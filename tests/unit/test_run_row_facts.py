"""What a row knows beside its columns, and which runs may need the same packs."""

from typing import Any

from orjson import loads

from holdfast.core.journal.run_row_facts import (
    facts_of,
    is_from_elsewhere,
    lineage_of,
    lineages,
    names_of,
    row_damage,
    travelling,
    with_facts,
)
from holdfast.testing.store_rules.builders import a_run


def a_row(run: str, **fields: Any) -> Any:
    return a_run(run, body=b"{}", **fields)


def test_facts_are_put_in_and_taken_out_beside_others() -> None:
    """Whoever writes one keeps the rest; a body that tells nothing has none."""
    row = a_row("r")._replace(body=b'{"theirs":1,"was":["x"]}')
    assert loads(with_facts(row, lineage="l", was=None)) == {"theirs": 1, "lineage": "l"}
    assert facts_of(row._replace(body=b"")) == facts_of(row._replace(body=b"[]")) == {}
    told = row._replace(body=b'{"was":["x"],"elsewhere":3,"imported":"h","flattens":"f","theirs":1}')
    assert travelling(told) == {"was": ["x"]}, "only what another store knows what to do with"


def test_a_fact_that_is_not_what_it_should_be_is_damage() -> None:
    """It counts as not there, and the row says why it is not to be believed."""
    row = a_row("r")
    assert row_damage(row) == ""
    for body in (
        b'{"was":"x"}',
        b'{"was":[1]}',
        b'{"elsewhere":"5"}',
        b'{"handed":[]}',
        b'{"lineage":1}',
        b"[]",
        b"{",
    ):
        told = row._replace(body=body)
        assert facts_of(told) == {}
        assert row_damage(told)
        names_of(told), is_from_elsewhere([told], 3), lineage_of([told])
    assert row_damage(row._replace(created_at=1e300))


def test_kin_is_a_lineage_and_not_a_tree() -> None:
    """Forks, forks of forks, roots that flattening has left, and a copy under another name; nobody else."""
    rows = {
        row.run: row
        for row in (
            a_row("root", birth="l" * 32),
            a_row("fork", origin="root", origin_seq=3),
            a_row("deep", origin="fork", origin_seq=5),
            a_row("copy", birth="l" * 32),
            a_row("flat")._replace(body=b'{"lineage":"llllllllllll"}'),
            a_row("below", origin="flat", origin_seq=2),
            a_row("stranger"),
            a_row("its-fork", origin="stranger", origin_seq=1),
        )
    }
    kin = {"root", "fork", "deep", "copy", "flat", "below"}
    names = lineages(rows)
    assert {run for run, name in names.items() if name == "llllllllllll"} == kin
    assert {run for run, name in names.items() if name == "birth-of-str"} == {"stranger", "its-fork"}
    assert names.keys() == rows.keys()


def test_where_an_event_was_recorded() -> None:
    """Told by the row that holds it: a fork's own events are from here, what it borrowed may not be."""
    root = a_row("root")._replace(body=b'{"elsewhere":5}')
    chain = [a_row("fork", origin="root", origin_seq=7), root]
    assert [is_from_elsewhere(chain, seq) for seq in (1, 5, 6, 7, 8)] == [True, True, False, False, False]
    assert lineage_of(chain) == "birth-of-roo"
