"""The viewer and the HTTP API: pages and JSON of a project's runs on a local server (extra `view`)."""
