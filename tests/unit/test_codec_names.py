"""Fixed names of our own classes: what is written, read and counted for identity does not follow their files.

Planted, and caught here: ``natural_name`` that asks no table. ``resolve`` that looks only into loaded modules is caught by
``tests/migrations/test_moved_files.py``.
"""

import sys
from subprocess import run
from types import ModuleType
from typing import Any, NamedTuple

import pytest

import holdfast
from holdfast.codec.exceptions import decode_failure, encode_failure
from holdfast.codec.type_registry import type_name
from holdfast.codec.values import canonical, decode, encode
from holdfast.core.steps.arguments import bind
from holdfast.errors import NotStorable
from holdfast.model import stored_names

FACT = b'{"$":"namedtuple","type":"holdfast.model.memories:Fact","v":{"id":"1","text":"t"'


def moved(monkeypatch: pytest.MonkeyPatch, name: str) -> type:
    """The class of a fixed name as if it were defined in another file."""
    module, qualname = stored_names.PLACES[name]
    old: Any = getattr(sys.modules[module], qualname)
    other = ModuleType("holdfast.elsewhere")
    cls = type(old.__name__, old.__bases__, {**vars(old), "__module__": other.__name__})
    setattr(other, qualname, cls)
    monkeypatch.setitem(sys.modules, other.__name__, other)
    monkeypatch.setitem(stored_names.PLACES, name, (other.__name__, qualname))
    monkeypatch.delitem(stored_names._NAMES, (module, qualname))
    monkeypatch.setitem(stored_names._NAMES, (other.__name__, qualname), name)
    monkeypatch.delattr(sys.modules[module], qualname)
    return cls


def test_a_class_of_ours_is_written_under_its_fixed_name() -> None:
    """The spelling that stores have held from the first format on."""
    assert encode(holdfast.Fact("1", "t"), what="fact").startswith(FACT)
    assert type_name(holdfast.Done) == "holdfast.model.verdicts:Done"


def test_a_moved_class_is_written_read_and_identified_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """Byte for byte; and old bytes are values of the class where it lies now."""
    before = holdfast.Fact("1", "t", tags=("a",))
    written, identity = encode(before, what="fact"), canonical({"fact": before}, what="arguments")
    cls = moved(monkeypatch, "holdfast.model.memories:Fact")
    after: Any = tuple.__new__(cls, before)
    assert encode(after, what="fact") == written
    assert canonical({"fact": after}, what="arguments") == identity
    assert type(decode(written, what="fact")) is cls


def test_a_moved_error_is_read_as_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """As its class, with its fields."""
    record = encode_failure(holdfast.UnknownRun(run="x", store="y", advice=""))
    assert record["type"] == "holdfast.errors:UnknownRun"
    cls = moved(monkeypatch, "holdfast.errors:UnknownRun")
    again = decode_failure(record)
    assert type(again) is cls
    assert encode_failure(again)["type"] == record["type"]


def test_what_a_closure_captures_of_ours_counts_by_its_fixed_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """A class, and a public function: the call is the same one after a move."""

    def calling(made: type, function: Any) -> Any:
        return lambda text: (made, function, text)

    before = bind(calling(holdfast.Done, holdfast.register), ("x",), {}, ())
    cls = moved(monkeypatch, "holdfast.model.verdicts:Done")
    assert "holdfast.model.verdicts:Done" in before.values()
    assert "holdfast.codec.types:register" in before.values()
    assert bind(calling(cls, holdfast.register), ("x",), {}, ()) == before


def test_a_class_of_ours_is_found_though_nobody_loaded_its_module() -> None:
    """A program that is given a recorded ``Diff`` need not have made one in this process."""
    program = (
        "import sys\n"
        "from holdfast.codec.values import decode\n"
        "assert 'holdfast.engine.lineage.fork' not in sys.modules\n"
        'data = b\'{"$":"namedtuple","type":"holdfast.engine.branching:Rewound","v":{"run":"r","to_seq":1,"kept":"k"}}\'\n'
        "print(type(decode(data, what='x')).__name__)\n"
    )
    told = run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert told.stdout == "Rewound\n", told.stderr


def test_a_part_of_the_machinery_is_not_stored() -> None:
    """It has no fixed name: it could not be read once its file has moved."""
    from holdfast.core.prune.roots import Root

    made = tuple.__new__(Root, Root._fields)
    with pytest.raises(NotStorable, match="Root"):
        encode(made, what="a plan")


def test_a_users_class_of_the_same_name_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table knows ours alone."""

    class Fact(NamedTuple):
        id: str

    module = ModuleType("theirs")
    Fact.__module__, Fact.__qualname__ = "theirs", "Fact"
    module.Fact = Fact  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "theirs", module)
    assert type(decode(encode(Fact("1"), what="x"), what="x")) is Fact
