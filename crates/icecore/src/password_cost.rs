//! The cost of each attempt to guess a password: `--password-cost`, `--password-passes`.

use crate::units;
use crypto::KdfParams;

/// The least that can be chosen is the default: less helps nobody but who guesses.
const MIN: KdfParams = KdfParams::DEFAULT;

/// What each guess of the new password costs.
#[derive(clap::Args, Debug, Default, Clone, Copy)]
pub(crate) struct PasswordCost {
    /// Memory that each use of the password needs, and each attempt to guess it: 19MiB to 1GiB [default: 19MiB]. A
    /// machine with less memory cannot use the password.
    #[arg(long = "password-cost", value_name = "SIZE", value_parser = memory_kib)]
    memory_kib: Option<u32>,
    /// Passes over that memory: 2 to 16 [default: 2].
    #[arg(long = "password-passes", value_name = "N", value_parser = clap::value_parser!(u32).range(i64::from(MIN.passes)..=i64::from(KdfParams::PASSES_MAX)))]
    passes: Option<u32>,
}

impl PasswordCost {
    /// With what was said; else as `before`, the password that is changed; else the default.
    pub(crate) fn kdf(self, before: Option<KdfParams>) -> KdfParams {
        let before = before.unwrap_or_default();
        KdfParams {
            memory_kib: self.memory_kib.unwrap_or(before.memory_kib),
            passes: self.passes.unwrap_or(before.passes),
            ..before
        }
    }
}

/// As `key list` shows it.
pub(crate) fn shown(kdf: KdfParams) -> String {
    let KdfParams { memory_kib, passes, .. } = kdf;
    let memory = match memory_kib {
        kib if kib % 1024 == 0 => format!("{} MiB", kib / 1024),
        kib => format!("{kib} KiB"),
    };
    format!("{memory}, {passes} passes")
}

fn memory_kib(text: &str) -> Result<u32, String> {
    let bytes = units::parse_bytes(text)?;
    let kib = u32::try_from(bytes.div_ceil(1024)).unwrap_or(u32::MAX);
    if (MIN.memory_kib..=KdfParams::MEMORY_KIB_MAX).contains(&kib) {
        return Ok(kib);
    }
    Err("the cost of a password is 19MiB to 1GiB".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn costs_are_taken_between_the_default_and_the_limit_of_the_format() {
        let table = [
            ("19MiB", Ok(19 << 10)),
            ("64M", Ok(64 << 10)),
            ("1GiB", Ok(1 << 20)),
            ("19455KiB", Err(())),
            ("1048577KiB", Err(())),
            ("5TiB", Err(())),
            ("0", Err(())),
            ("much", Err(())),
        ];
        for (text, kib) in table {
            assert_eq!(memory_kib(text).map_err(|_| ()), kib, "{text}");
        }
    }

    #[test]
    fn what_is_not_said_stays_as_it_was() {
        let before = KdfParams { memory_kib: 70 << 10, passes: 5, lanes: 2 };
        let said = PasswordCost { memory_kib: Some(90 << 10), passes: None };
        assert_eq!(said.kdf(Some(before)), KdfParams { memory_kib: 90 << 10, ..before });
        assert_eq!(said.kdf(None), KdfParams { memory_kib: 90 << 10, ..KdfParams::DEFAULT });
        assert_eq!(PasswordCost::default().kdf(Some(before)), before);
        assert_eq!(shown(before), "70 MiB, 5 passes");
    }
}
