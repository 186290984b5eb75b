"""The compute side of a run: the driver on Ray, its journal, and the calls that start and watch it."""
