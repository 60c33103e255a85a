"""The base of every error: fields, the message and the hint made from them, and pickling."""

from typing import Any, ClassVar, Self

from holdfast.model.markers import MASKS


def masked_message(text: str) -> str:
    """What is printed of an error, and sent on, has no secret; its fields are the program's."""
    for mask in MASKS:
        text = mask(text)
    return text


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
        super().__init__(masked_message(self.says.format(**fields)))
        # the code that raises may know better advice than the class
        self.hint: str = masked_message(fields.get("advice") or self.advises.format(**fields))
        if self.hint:
            self.add_note(f"hint: {self.hint}")

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.fields))

    def because(self, cause: BaseException) -> Self:
        """The same error with its cause set, for raising inside an expression."""
        self.__cause__ = cause
        return self
