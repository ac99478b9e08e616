"""Packages for hosts: wheel, .deb, .rpm and the context of a container image (`tools/package`)."""
