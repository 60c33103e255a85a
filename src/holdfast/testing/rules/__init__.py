"""The rules of the store contract, one module a noun; ``holdfast.testing.contract`` puts them together."""
