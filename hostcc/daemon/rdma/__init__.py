"""RDMA in the agent: plans for jobs with the transport shim, turns at PCIe links, DCQCN."""
