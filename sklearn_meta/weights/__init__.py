"""The weights that are shipped, one json card each, and the store that finds and verifies them."""

from .store import available_weights, load_learner, save_learner, save_pretrained

__all__ = ["available_weights", "load_learner", "save_learner", "save_pretrained"]
