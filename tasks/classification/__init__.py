"""Classification: AG_News topics, or any labeled CSV."""
