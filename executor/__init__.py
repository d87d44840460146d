"""Runs a plan for real and checks that what ran is right: TorchRec under torchrun, one process a rank."""
