"""Classification: AG_News topics, or any labelled CSV."""
