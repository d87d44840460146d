"""The study of Acun et al. (HPCA 2021) done again by model: its sweeps, its three production models, and what the paper says of both."""
