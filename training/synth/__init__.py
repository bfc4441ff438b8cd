"""Makes and changes texts by rule."""
