"""Coding agents: programs that keep a conversation themselves and work on files in a workspace."""
