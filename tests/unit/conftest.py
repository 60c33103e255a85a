"""Settings of the property tests among these."""

import tests.support.examples  # noqa: F401 - loads the profile
