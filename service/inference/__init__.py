"""Takes texts to the network: the engine, its queue, its schedule and its lanes."""
