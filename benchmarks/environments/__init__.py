"""Where the rivals live: an environment each, made from the package registries."""
