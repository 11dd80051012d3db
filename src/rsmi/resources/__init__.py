"""Word lists, lexicons, taggers and vectors the attacks need: found, checked, converted once and kept in a cache."""
