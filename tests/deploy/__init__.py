"""What deploys the service fits together, as far as files can show it."""
