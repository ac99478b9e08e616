"""The lab: real TCP jobs over shaped bottlenecks between network namespaces of one machine."""
