"""Nouns that travel between the stages. Standard library only; nothing here does input or output."""
