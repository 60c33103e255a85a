"""What memory is searched by besides words: embedders, and the rule by which two facts are one.

Nothing here knows a store. numpy is an extra, ``holdfast[memory]``, and is imported when a vector is made; without it, facts
are found by their words alone. Nothing is downloaded, and nobody is called whom nobody has named.
"""
