"""Notes what a run relies on, and checks it when the run is resumed."""
