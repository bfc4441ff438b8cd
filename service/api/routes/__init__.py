"""The routes: each says what it needs, calls one function, and returns its answer."""
