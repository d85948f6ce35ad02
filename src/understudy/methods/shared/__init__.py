"""What published methods share. Nothing here is a method by itself."""
