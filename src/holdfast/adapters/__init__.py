"""Adapters for other clients and frameworks: each module knows one of them, and is loaded when it is used."""
