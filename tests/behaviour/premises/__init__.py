"""What the tests of premises share: scenes in which something happens to a run that was cut off."""
