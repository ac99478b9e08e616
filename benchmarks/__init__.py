"""Side-by-side measurements, one script per claim; `hostcc bench` starts them."""
