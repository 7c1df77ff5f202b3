//! What to do where a clock is in doubt.

use clock::Doubt;

/// The `doubt` of a clock, with what to type: `confirm`, where that helps. Time does not go back, so it does not help
/// where the clock was ahead once and is right now.
pub(crate) fn advised(doubt: &str, confirm: &str) -> String {
    if doubt == Doubt::Catalog.to_string() {
        return format!("{doubt}. Since when, and what to do: icecore server status");
    }
    if !doubt.contains("behind") && !confirm.is_empty() {
        return format!("{doubt}. If that clock is right: {confirm}");
    }
    format!(
        "{doubt}. If that clock is right, it was ahead once: wait until it has caught up. If not, set it: timedatectl"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_helps_is_advised() {
        let ahead = advised(&Doubt::Fast(7000).to_string(), "icecore server clock confirm");
        assert!(ahead.ends_with("right: icecore server clock confirm"), "{ahead}");
        let behind = advised(&Doubt::Slow(7000).to_string(), "icecore server clock confirm");
        assert!(behind.contains("caught up") && !behind.contains("confirm"), "{behind}");
        let older = advised(&Doubt::Catalog.to_string(), "icecore server clock confirm");
        assert!(older.ends_with("icecore server status"), "{older}");
    }
}
