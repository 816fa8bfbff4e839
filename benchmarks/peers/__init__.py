"""The rivals, one file a system: what it is, and how it is driven through its public interface."""
