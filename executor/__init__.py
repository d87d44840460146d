"""Runs a plan for real and checks that what ran is right: TorchRec, one process a rank."""
