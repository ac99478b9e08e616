"""RDMA in the agent: what jobs with the transport shim are told, turns at PCIe links, DCQCN."""
