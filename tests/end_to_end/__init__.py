"""A real server over a real socket, asked by real clients."""
