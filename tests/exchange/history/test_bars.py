"""Tables of bars in several layouts become the one that training reads."""

import gzip
from pathlib import Path
from typing import Any

import pandas  # noqa: F401
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
