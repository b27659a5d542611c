"""The applications on the core: translation, classification, couplet."""
