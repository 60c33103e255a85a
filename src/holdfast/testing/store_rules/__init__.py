"""The rules of the store contract, one module a noun; ``holdfast.testing.store_contract`` puts them together."""
