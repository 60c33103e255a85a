"""The queue: claims of workers, children, and when a run is due."""
