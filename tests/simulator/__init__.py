"""A seeded simulation of several processes, their machine, its power and the people around it."""
