"""Trains a small asynchronous fleet on this machine: Hogwild threads, elastic averaging, sparse and dense parameter servers."""
