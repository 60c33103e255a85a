"""Encryption at rest: a store around another one, which seals what goes in and opens what comes out."""
