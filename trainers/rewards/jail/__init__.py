"""What runs on the far side of the sandbox's pipes: standard library only, never imported by the platform itself.

``main`` starts and supervises, ``isolate`` takes rights away, ``kernel`` speaks to the kernel, ``tasks`` runs the
code of users. See :mod:`trainers.rewards.sandbox` for the near side.
"""
