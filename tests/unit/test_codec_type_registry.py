"""The registry: names of classes, codecs of users, and the rule that data imports nothing."""

import sys
import textwrap
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from pathlib import Path
from subprocess import run
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any, NamedTuple, NewType, Optional, cast

import orjson
import pytest

from holdfast.codec import type_registry
from holdfast.codec.type_registry import hint_classes, natural_name, register, resolve, type_name
from holdfast.codec.values import canonical, decode, encode
from holdfast.errors import Misuse, NotStorable, ValueUnreadable


@pytest.fixture(autouse=True)
def _fresh_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type_registry, "_by_class", {})
    monkeypatch.setattr(type_registry, "_by_name", {})


def back(value: object, hint: object = None) -> Any:
    return decode(encode(value, what="value"), what="value", hint=hint)


@dataclass
class Invoice:
    total: int


@dataclass
class ModelCost:
    total: int


class Handle:
    """A class that only its own functions can store."""

    def __init__(self, number: int) -> None:
        self.number = number


class SubHandle(Handle):
    pass


class Plain:
    pass


def local_class() -> Any:
    @dataclass
    class Local:
        a: int

    return Local


# -- names --------------------------------------------------------------------------------------------------------


def test_type_name_is_module_and_qualname() -> None:
    """One name a class, with the place of nested ones."""
    assert type_name(Invoice) == f"{__name__}:Invoice"
    assert type_name(local_class()) == f"{__name__}:local_class.<locals>.Local"


@pytest.mark.parametrize(
    ("main", "name"),
    [
        (SimpleNamespace(__spec__=None, __file__="/srv/job.py"), "job"),
        (SimpleNamespace(__spec__=None, __file__="C:\\srv\\job.v2.py"), "job.v2"),
        (SimpleNamespace(__spec__=SimpleNamespace(name="pkg.job"), __file__="/srv/pkg/job.py"), "pkg.job"),
        (SimpleNamespace(__spec__=None, __file__="/usr/bin/job"), "job"),
        (SimpleNamespace(), "__main__"),
    ],
)
def test_started_program_has_its_import_name(main: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Classes of the program that was started are written under the name it would be imported by."""
    monkeypatch.setitem(sys.modules, "__main__", main)
    monkeypatch.setattr(Invoice, "__module__", "__main__")
    assert type_name(Invoice) == f"{name}:Invoice"
    main.Invoice = Invoice
    assert resolve(f"{name}:Invoice").cls is Invoice
    assert resolve("__main__:Invoice").cls is Invoice


def test_script_run_today_is_read_as_module_tomorrow(tmp_path: Path) -> None:
    """Written by ``python job.py``, read by a program that imports it, and the other way round."""
    (tmp_path / "job.py").write_text(
        textwrap.dedent("""
            import sys
            from dataclasses import dataclass
            from holdfast.codec.values import decode, encode
            @dataclass
            class Order:
                n: int
            if __name__ == "__main__":
                sys.stdout.write(encode(Order(1), what="v").decode())
        """)
    )
    (tmp_path / "reader.py").write_text("import sys, job\nprint(job.decode(sys.argv[1].encode(), what='v'))")
    env = {"PYTHONPATH": f"{tmp_path}:{Path(type_registry.__file__).parents[2]}"}
    written = run(
        [sys.executable, "job.py"], cwd=tmp_path, env=env, capture_output=True, text=True, check=True
    ).stdout
    read = run(
        [sys.executable, "reader.py", written],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert read == "Order(n=1)\n"


# -- register -------------------------------------------------------------------------------------------------


def test_registered_functions_store_any_class() -> None:
    """What encode returns is stored in turn, tagged types and all; decode gets it back."""
    register(Handle, encode=lambda handle: (handle.number,), decode=lambda stored: Handle(*stored))
    again = back([Handle(7)])[0]
    assert type(again) is Handle
    assert again.number == 7
    assert encode(Handle(7), what="value") == (
        b'{"$":"custom","type":"%s:Handle","v":{"$":"tuple","v":[7]}}' % __name__.encode()
    )


def test_registration_does_not_cover_subclasses() -> None:
    """A subclass would come back as its parent."""
    register(Handle, encode=vars, decode=lambda stored: Handle(**stored))
    with pytest.raises(NotStorable, match="a SubHandle"):
        encode(SubHandle(1), what="value")


def test_registered_functions_go_before_the_class_s_own_form() -> None:
    """A dataclass with a codec of its own is stored through it."""
    register(Invoice, encode=lambda invoice: invoice.total, decode=lambda total: Invoice(total + 1))
    assert back(Invoice(1)) == Invoice(2)


def test_register_is_a_decorator() -> None:
    """Bare, and with options; a local class becomes findable."""

    @register
    @dataclass
    class Bare:
        a: int

    @register(name="shop:Named")
    @dataclass
    class Named:
        a: int

    assert back([Bare(1), Named(2)]) == [Bare(1), Named(2)]
    assert b'"type":"shop:Named"' in encode(Named(1), what="value")


def test_renamed_class_keeps_records_and_identity() -> None:
    """Registered under its old name it reads old records, and calls it was passed to keep their identity."""
    old = encode(Invoice(3), what="value").replace(b":Invoice", b":Rechnung")
    identity = canonical(Invoice(3), what="value").replace(b":Invoice", b":Rechnung")
    with pytest.raises(ValueUnreadable, match="not defined in any loaded module"):
        decode(old, what="value")
    register(Invoice, name=f"{__name__}:Rechnung")
    assert decode(old, what="value") == Invoice(3)
    assert canonical(Invoice(3), what="value") == identity
    assert decode(old.replace(b":Rechnung", b":Invoice"), what="value") == Invoice(3)


def test_many_old_names_are_all_read() -> None:
    """The last one registered is written."""
    for name in ("a:A", "b:B"):
        register(Invoice, name=name)
    data = encode(Invoice(1), what="value")
    assert b'"b:B"' in data
    assert decode(data.replace(b"b:B", b"a:A"), what="value") == Invoice(1)


def test_defining_a_class_again_replaces_it() -> None:
    """A notebook cell run twice registers the newer class."""
    first: Any = register(local_class())
    second: Any = register(local_class())
    assert first is not second
    assert type(back(second(1))) is second


@pytest.mark.parametrize(
    ("attempt", "problem"),
    [
        (lambda: register(Plain), "not a dataclass"),
        (lambda: register(Handle, encode=vars), "only one of"),
        (lambda: register(int), "cannot be registered"),
        (lambda: register(Decimal, encode=str, decode=Decimal), "cannot be registered"),
        (lambda: register(deque, encode=list, decode=deque), "cannot be registered"),
        (lambda: register(cast("Any", "Invoice")), "cannot be registered"),
        (
            lambda: (register(Invoice, name="x"), register(ModelCost, name="x")),
            "registered for .*:Invoice already",
        ),
    ],
)
def test_wrong_registrations_are_refused(attempt: Any, problem: str) -> None:
    """At once, not when a value is read months later."""
    with pytest.raises(Misuse, match=problem):
        attempt()


def test_failing_functions_are_named() -> None:
    """The user's own error is the cause, and the class is in the message."""

    def fail(_: object) -> Any:
        raise KeyError("gone")

    register(Handle, encode=vars, decode=fail)
    with pytest.raises(
        ValueUnreadable, match=r"Handle, which its registered decode refused \(KeyError: 'gone'\)"
    ) as read:
        back(Handle(1))
    assert isinstance(read.value.__cause__, KeyError)
    register(Handle, encode=fail, decode=fail)
    with pytest.raises(NotStorable, match=r"which its registered encode refused .* at \$\.h") as written:
        encode({"h": Handle(1)}, what="value")
    assert isinstance(written.value.__cause__, KeyError)


def test_record_of_a_codec_needs_it_to_be_read() -> None:
    """Without the registration the value is refused, not built from what encode returned."""
    register(Invoice, encode=lambda invoice: invoice.total, decode=Invoice)
    data = encode(Invoice(1), what="value")
    type_registry._by_class.clear()
    type_registry._by_name.clear()
    with pytest.raises(ValueUnreadable, match="no registered decode"):
        decode(data, what="value")


# -- resolve --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrap",
    [
        lambda cls: cls,
        list.__class_getitem__,
        lambda cls: dict.__class_getitem__((str, cls)),
        lambda cls: cls | None,
        lambda cls: Optional[cls],  # noqa: UP045  both spellings
        lambda cls: Annotated[cls, "note"],
        lambda cls: Annotated[cls, {"not": "hashable"}],
        lambda cls: tuple.__class_getitem__((int, list.__class_getitem__(cls | int))),
        lambda cls: NewType("Alias", cls),
        lambda cls: dataclass(type("Holder", (), {"__annotations__": {"inner": cls}})),
    ],
)
def test_hint_finds_local_classes(wrap: Any) -> None:
    """Through unions, containers, Annotated, NewType and the fields of a dataclass."""
    local = local_class()
    assert back(local(1), hint=wrap(local)) == local(1)


@pytest.mark.parametrize(
    "hint", ["Local", "list[Missing]", None, 7, list.__class_getitem__("Missing"), Any, ...]
)
def test_hint_that_says_nothing_is_ignored(hint: object) -> None:
    """A string, a forward reference or nonsense does not hinder what can be found otherwise."""
    assert back(Invoice(1), hint=hint) == Invoice(1)


def test_hint_goes_first() -> None:
    """The annotation of the function that asks is nearer than what stands in the module now."""
    twin: Any = dataclass(
        type(
            "Invoice",
            (),
            {"__annotations__": {"total": int}, "__qualname__": "Invoice", "__module__": __name__},
        )
    )
    assert type(back(Invoice(1), hint=twin)) is twin
    assert type(back(Invoice(1))) is Invoice


def test_hint_that_refers_to_itself_ends() -> None:
    """Recursive classes are walked once."""
    node: Any = dataclass(type("Node", (), {"__annotations__": {}}))
    node.__dataclass_fields__ = {"next": SimpleNamespace(type=Optional[node])}  # noqa: UP045
    assert natural_name(node) in hint_classes(list.__class_getitem__(node))


def test_local_class_without_hint_is_unreadable() -> None:
    """Data alone cannot reach into a function."""
    with pytest.raises(ValueUnreadable, match=r"<locals>\.Local, which is not defined in any loaded module"):
        back(local_class()(1))


@pytest.fixture
def planted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module that could be imported, and that nobody has."""
    name = "holdfast_planted_module"
    (tmp_path / f"{name}.py").write_text("raise AssertionError('imported because data said so')")
    monkeypatch.syspath_prepend(tmp_path)
    assert name not in sys.modules
    yield name
    assert name not in sys.modules


@pytest.mark.parametrize("tag", ["dataclass", "enum", "namedtuple", "model", "custom"])
def test_nothing_is_imported_because_data_says_so(planted: str, tag: str) -> None:
    """A type in a module that is not loaded is unreadable, and stays unloaded. Planted: import_module in find_loaded."""
    data = b'{"$":"%s","type":"%s:Thing","v":{},"name":"A"}' % (tag.encode(), planted.encode())
    with pytest.raises(ValueUnreadable):
        decode(data, what="value")


def test_no_lazy_attribute_is_triggered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module's __getattr__ may import; it is not asked. Planted: getattr in the walk called it."""
    asked: list[str] = []
    lazy = ModuleType("holdfast_lazy_module")
    lazy.__getattr__ = asked.append  # type: ignore[method-assign]
    monkeypatch.setitem(sys.modules, lazy.__name__, lazy)
    with pytest.raises(ValueUnreadable):
        decode(b'{"$":"dataclass","type":"holdfast_lazy_module:Thing.Inner","v":{}}', what="value")
    assert asked == []


@pytest.mark.parametrize(
    ("name", "problem"),
    [
        ("subprocess:Popen", "not a dataclass"),
        ("builtins:eval", "not a class"),
        ("builtins:dict", "not a dataclass"),
        ("os:path.join", "not a class"),
        ("os:path.join.x", "not defined"),
        (":", "not defined"),
        ("", "not defined"),
        ("sys", "not defined"),
    ],
)
def test_only_data_classes_are_built(name: str, problem: str) -> None:
    """Data that names a function or an arbitrary class is refused."""
    data = b'{"$":"dataclass","type":"%s","v":{}}' % name.encode()
    with pytest.raises(ValueUnreadable, match=problem):
        decode(data, what="value")


class TestUpgrade:
    """``upgrade=``: a class whose fields have changed reads its older records."""

    def older(self, cls: type, fields: dict[str, Any]) -> bytes:
        """A record of the class as it was, with these fields."""
        tag = "dataclass" if hasattr(cls, "__dataclass_fields__") else "namedtuple"
        return orjson.dumps({"$": tag, "type": type_name(cls), "v": fields})

    def test_fields_of_an_older_record_become_todays(self) -> None:
        """A name that was split in two: the function gets the old fields, and gives the new ones."""

        @dataclass
        class Person:
            first: str
            last: str

        seen: list[dict[str, Any]] = []

        def upgrade(fields: dict[str, Any]) -> dict[str, Any]:
            seen.append(fields)
            first, _, last = fields["name"].partition(" ")
            return {"first": first, "last": last}

        register(Person, upgrade=upgrade)
        assert decode(self.older(Person, {"name": "Ada Lovelace"}), what="x") == Person("Ada", "Lovelace")
        assert decode(encode(Person("Bob", "Ross"), what="x"), what="x") == Person("Bob", "Ross")
        assert seen == [{"name": "Ada Lovelace"}]

    def test_a_named_tuple_too(self) -> None:
        """The same for NamedTuples, as a decorator."""

        @register(upgrade=lambda fields: {"cents": fields["euros"] * 100})
        class Price(NamedTuple):
            cents: int

        assert decode(self.older(Price, {"euros": 3}), what="x") == Price(300)

    def test_an_upgrade_that_fails_names_the_class(self) -> None:
        """The record is unreadable, and why is told."""

        @dataclass
        class Order:
            id: int

        register(Order, upgrade=lambda fields: {"id": fields["number"]})
        with pytest.raises(ValueUnreadable, match="registered upgrade refused"):
            decode(self.older(Order, {"nr": 1}), what="x")

    def test_a_class_without_fields_has_nothing_to_upgrade(self) -> None:
        """Misuse, with what to do."""

        class Colour(Enum):
            RED = 1

        with pytest.raises(Misuse, match="upgrade="):
            register(Colour, upgrade=lambda fields: fields)
