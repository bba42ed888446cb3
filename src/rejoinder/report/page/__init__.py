"""What the report and the viewer show in a browser: HTML and SVG made here, and the script that makes lists and
conversations."""
