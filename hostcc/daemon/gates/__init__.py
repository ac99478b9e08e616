"""Gates: jobs of a group send one after the other."""
