"""Settings of the property tests."""

import tests.support.examples  # noqa: F401 - loads the profile
