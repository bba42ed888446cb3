"""The engine: conversations, the journal, runs."""
