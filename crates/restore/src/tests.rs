//! Restores into real directories, on ext4 and tmpfs.

mod attack;
mod existing;
mod extremes;
mod folding;
mod kinds;
mod mounts;
mod plain_user;
