"""What left each client, and what it reveals about a record."""
