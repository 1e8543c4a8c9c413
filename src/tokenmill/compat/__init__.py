"""Other libraries' interfaces, on this one's engine."""
