"""Makes the checkpoint that ships; no part of the product."""
