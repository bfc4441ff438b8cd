"""Makes and disturbs text by rule."""
