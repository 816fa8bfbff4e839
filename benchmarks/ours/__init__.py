"""wakeful itself, through its public interface, and crowds of its jobs."""
