"""What happens when too much, the wrong thing or nothing comes: shown on real processes."""
