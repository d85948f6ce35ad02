"""What left a client, attacked: how much it gives away about the records behind it."""
