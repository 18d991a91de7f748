"""The explorer: one HTML page that shows a compilation from the user's lines to the assembly."""
