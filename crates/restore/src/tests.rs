//! Restores into real directories, on ext4 and tmpfs.

mod attack;
mod existing;
mod extremes;
mod kinds;
mod plain_user;
