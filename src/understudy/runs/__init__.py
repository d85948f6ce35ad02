"""Running a federation, and questions about a run."""
