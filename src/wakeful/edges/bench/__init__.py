"""What a server will carry: a short measurement in a throwaway database."""
