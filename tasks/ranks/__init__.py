"""One file through many processes: each answers some of its chunks, rank 0 writes all of them."""
