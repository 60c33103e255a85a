"""Search by meaning: embedders, and the rule that decides whether two facts are one.

It knows no store. numpy is an extra, ``holdfast[memory]``, and is imported when the first vector is made;
without it, facts are found by words alone. Nothing is downloaded, and no server is called unless the user
configures one.
"""
