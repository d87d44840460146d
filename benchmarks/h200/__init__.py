"""What one NVIDIA H200 said on 2026-11-27, torch 2.11.0, TorchRec 1.6.1 and FBGEMM 1.6.0: a profile's samples, and models trained.

`data` holds them as they were taken: the host, the points and samples of two profiles of one rank, one after the other, every plan that
was trained with its measurement, lookups with a cache, lookups by rows, and what there was without FBGEMM.
"""
