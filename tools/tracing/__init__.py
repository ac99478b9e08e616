"""Ad-hoc tracing with bcc, the code of `tools/trace-*`.  Reads, never changes the network."""
