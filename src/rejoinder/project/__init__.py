"""The project around suites: its folders and files, `.env` files, client certificates and the names of its plugins."""
