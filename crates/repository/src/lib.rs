//! Containers, chunk index, lease, snapshots, reclaim and check over a small Storage trait.
