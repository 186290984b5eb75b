"""The launcher: every part of the product as a child process of one, started in order, watched, and ended with it."""
