"""Where a model keeps its tables, for programs that import torch and for those that don't."""

MODULE_PATH = "ebc"
"""The EmbeddingBagCollection of profiler.dlrm.Dlrm, and of every model that an exported plan is for."""
