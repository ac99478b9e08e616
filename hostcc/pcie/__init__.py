"""The PCIe tree of a host, who shares its links, and semaphores that order their use."""
