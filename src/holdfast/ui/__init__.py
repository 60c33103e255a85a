"""The inspector: a web page on loopback that shows runs and lets people settle what waits for them."""
