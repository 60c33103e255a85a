"""What every error is made of: fields, the message and the hint that they give, and a way through pickling."""

from typing import Any, ClassVar, Self


def _rebuild(cls: "type[Explained]", fields: dict[str, Any]) -> "Explained":
    return cls(**fields)


class Explained(BaseException):
    """A message made from fields, so that an error can be read, matched on and pickled."""

    says: ClassVar[str] = ""
    advises: ClassVar[str] = ""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields
        for name, value in fields.items():
            setattr(self, name, value)
        super().__init__(self.says.format(**fields))
        # who knows better than the class what to do next says so
        self.hint: str = fields.get("advice") or self.advises.format(**fields)
        if self.hint:
            self.add_note(f"hint: {self.hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.fields))

    def because(self, cause: BaseException) -> Self:
        """The same error with its cause set, for raising from inside an expression."""
        self.__cause__ = cause
        return self
