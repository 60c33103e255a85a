"""``make upgrade``: what a run goes through when the Python below it, or the package, becomes a newer one."""
