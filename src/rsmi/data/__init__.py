"""Named set, CSV, JSONL, Parquet or hub id -> texts (or pairs) and labels; splits; the embedded default."""

from rsmi.data.dataset import TextDataset
from rsmi.data.embedded import EmbeddedStatus, embedded_dataset, embedded_status, encoder_folder
from rsmi.data.files import iter_rows, iter_texts, read_file
from rsmi.data.load import load_data
from rsmi.data.rows import Row
from rsmi.data.splits import hash_split, stratified_split

__all__ = [
    "EmbeddedStatus",
    "Row",
    "TextDataset",
    "embedded_dataset",
    "embedded_status",
    "encoder_folder",
    "hash_split",
    "iter_rows",
    "iter_texts",
    "load_data",
    "read_file",
    "stratified_split",
]
