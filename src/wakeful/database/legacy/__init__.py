"""A home-made jobs table: looked up in the catalogue, read, emptied and filled again.

Its names come from a person's file, so they reach the server as quoted identifiers only.
"""
