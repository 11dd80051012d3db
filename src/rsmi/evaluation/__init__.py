"""Defense x data -> numbers with intervals."""
