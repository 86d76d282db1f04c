"""The HTML page, part by part."""
