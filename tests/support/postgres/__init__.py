"""A real PostgreSQL for the tests: started once per session, stopped at its end."""
