"""What people write otherwise, as plainly as they would."""
