"""Search by meaning: embedders, and the rule that decides whether two facts are one.

It knows no store. numpy and the table of word vectors (``packages/vectors``, a distribution of its own) are
an extra, ``holdfast[memory]``, and are imported when the first vector is made; without them, facts are found
by words alone. Nothing is downloaded, and no server is called unless the user configures one.
"""
