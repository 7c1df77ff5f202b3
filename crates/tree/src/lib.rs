//! The snapshot tree: entries sorted by path, cut into pages by content.
