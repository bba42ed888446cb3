"""Stored runs: their folders and files, read, counted, compared and verified. Nothing is played."""
