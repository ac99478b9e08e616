"""Gates: jobs that fit beside each other send one after the other, whoever comes first. Pure."""
