"""The HTTP server behind `rsmi serve`: requests -> batches -> records, and the playground page."""
