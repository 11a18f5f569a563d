class NotServed(ValueError):
    """Stretto does not serve a call; says why in one line."""
