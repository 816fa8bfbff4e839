"""Wake: what ends a worker's sleep (a poke, a timer, the pulse), and nothing that polls."""
