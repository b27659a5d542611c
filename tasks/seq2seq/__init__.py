"""What translation and couplets share."""
