"""The site: what is in it and in which order, the reference pages that are made from the code, and how it is put together."""
