"""How recorded values and times read for people: used by every subject."""
