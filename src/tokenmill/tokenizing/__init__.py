"""Inputs → shards: planned as units, each done once, and sealed with a manifest."""
