"""Translation: German to English, or any parallel corpus."""
