//! A site as one TOML file, with a table `[KIND.NAME]` for each object.
//!
//! A file is read as a whole or not at all, with all mistakes in the order of its lines.

mod mistake;
mod place;
mod read;

pub use mistake::Mistake;
pub use read::{read, read_with};

use crate::Site;

/// The longest file.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// The site as text. [`read`] makes the same site of it.
pub fn write(site: &Site) -> String {
    // Texts as keys, no missing values in lists, numbers that TOML has: nothing can fail.
    toml::to_string(site).unwrap_or_else(|error| unreachable!("a site is always TOML: {error}"))
}
