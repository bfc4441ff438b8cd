"""Programs to copy and to change."""
