"""Gates: what a run came to in verdicts, kept as a baseline, and rules that it has to keep.

No name is imported here, so that a command loads only what it uses.
"""
