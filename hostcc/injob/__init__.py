"""What is loaded into users' jobs."""
