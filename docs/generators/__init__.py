"""One file a page of the reference: each reads code, and gives Markdown."""
