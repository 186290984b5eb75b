"""What runs on the far side of the sandbox's pipes, never imported by the platform itself.

All but the modules of a :class:`~trainers.rewards.worker.Tool` know the standard library only.

``main`` starts and supervises, ``isolate`` takes rights away, ``kernel`` speaks to the kernel, ``tasks`` runs the
code of users, ``programs`` that of models. See :mod:`trainers.rewards.sandbox` for the near side.
"""
