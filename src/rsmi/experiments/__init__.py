"""The paper's tables and figures, one declarative spec each: `rsmi reproduce`."""
