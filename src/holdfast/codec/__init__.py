"""Values to bytes and back: JSON with tagged types, the registry of classes, failures, blobs, bodies.

It knows types and bytes. It refuses to know what a run, a store or a step is.
"""
