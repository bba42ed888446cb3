"""Providers answer requests. Each is a file behind one protocol, imported when a target needs it."""
