"""Files of a run at work: written, recorded, compared, restored."""
