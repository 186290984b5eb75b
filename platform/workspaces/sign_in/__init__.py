"""Signing in: password, passkey or single sign-on, then a second factor; and what a person sets about it.

django-allauth does the protocols; this package gives it our people, our outbox, our limits, and one page to look at.
"""
