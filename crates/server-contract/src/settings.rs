//! The settings of a domain, as the config of its repository has them.

use api::domains::{Dedup, Privacy, Settings};
use repository::config::Config;

/// The settings with which a repository was made; `None` if its privacy is none that is known.
pub fn settings_of(config: &Config) -> Option<Settings> {
    let privacy = match config.privacy {
        1 => Privacy::Standard,
        2 => Privacy::Hardened,
        _ => return None,
    };
    let dedup = if config.dedup() { Dedup::On } else { Dedup::Off };
    Some(Settings { privacy, parity_percent: config.parity_percent(), dedup })
}
