"""Values to bytes and back: JSON with tagged types, the registry of classes, failures, blobs, bodies.

It knows types and bytes. It does not know runs, stores or steps.
"""
