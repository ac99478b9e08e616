"""Pictures and the page that people look at: SVG and HTML of what agents answer, without I/O."""
