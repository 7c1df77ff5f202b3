//! Restores into real directories, on ext4 and tmpfs.

mod above;
mod attack;
mod coarse;
mod existing;
mod extremes;
mod folding;
mod kinds;
mod mounts;
mod plain_user;
