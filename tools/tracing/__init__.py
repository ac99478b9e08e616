"""Ad-hoc tracing with bcc: what `tools/trace-*` run.  Reads, never changes the network."""
