"""Makes jobs of calls, and brings them into the database: in the caller's transaction, or in one of ours."""
