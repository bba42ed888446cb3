"""Reports: what people and machines are shown."""
