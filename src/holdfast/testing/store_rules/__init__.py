"""The rules of the store contract, one module per noun; ``holdfast.testing.store_contract`` combines them."""
