//! Where the binary lies that the rigs run.

use std::path::{Path, PathBuf};

/// The top folder of the sources.
pub(crate) fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// The binary of `cargo build --profile PROFILE`.
pub(crate) fn binary(profile: &str) -> PathBuf {
    let target =
        std::env::var("CARGO_TARGET_DIR").map_or_else(|_| root().join("target"), PathBuf::from);
    target.join(profile).join("icecore")
}
