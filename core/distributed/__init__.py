"""Several processes that work together: everything that talks to ``torch.distributed``."""
