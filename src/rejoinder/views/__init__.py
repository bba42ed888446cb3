"""Views: a stored run or conversation with every decision made, for the layouts that show it."""
