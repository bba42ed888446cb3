"""Conversations that already happened: read from the files of other programs, graded, and made into cases."""
