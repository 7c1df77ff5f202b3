//! The credentials of the process: the owner and mode that new objects get, and what may be set.
//! Read once.

/// Bits of the effective capabilities.
const CAP_CHOWN: u64 = 1 << 0;
const CAP_DAC_OVERRIDE: u64 = 1 << 1;

/// The credentials of the thread that opened the target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Credentials {
    /// Owner of new objects.
    pub(crate) uid: u32,
    /// Group of new objects in a directory without setgid.
    pub(crate) gid: u32,
    /// Mode bits that are removed from new objects.
    pub(crate) umask: u32,
    /// May change the owner of objects.
    pub(crate) may_chown: bool,
    /// Is not limited by permission bits.
    pub(crate) may_override: bool,
}

impl Credentials {
    pub(crate) fn current() -> Self {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap_or_default();
        Self::parse(&status).unwrap_or_else(Self::without_proc)
    }

    /// Without /proc, all bits count as masked, so each mode is set explicitly.
    fn without_proc() -> Self {
        let uid = rustix::process::geteuid().as_raw();
        let gid = rustix::process::getegid().as_raw();
        Credentials { uid, gid, umask: 0o777, may_chown: uid == 0, may_override: uid == 0 }
    }

    fn parse(status: &str) -> Option<Self> {
        let capabilities = u64::from_str_radix(field(status, "CapEff:", 0)?, 16).ok()?;
        Some(Credentials {
            uid: field(status, "Uid:", FILE_SYSTEM_ID)?.parse().ok()?,
            gid: field(status, "Gid:", FILE_SYSTEM_ID)?.parse().ok()?,
            umask: u32::from_str_radix(field(status, "Umask:", 0)?, 8).ok()?,
            may_chown: capabilities & CAP_CHOWN != 0,
            may_override: capabilities & CAP_DAC_OVERRIDE != 0,
        })
    }
}

/// The column of the file-system id, after real, effective and saved id.
const FILE_SYSTEM_ID: usize = 3;

fn field<'a>(status: &'a str, key: &str, number: usize) -> Option<&'a str> {
    let line = status.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_ascii_whitespace().nth(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_of_a_plain_user_gives_its_file_system_ids() {
        let status = "Name:\tx\nUmask:\t0027\nUid:\t1\t2\t3\t4\nGid:\t5\t6\t7\t8\nCapEff:\t0000000000000000\n";
        let credentials =
            Credentials { uid: 4, gid: 8, umask: 0o27, may_chown: false, may_override: false };
        assert_eq!(Credentials::parse(status), Some(credentials));
    }

    #[test]
    fn this_thread_is_who_it_is() {
        assert_eq!(Credentials::current().uid, rustix::process::geteuid().as_raw());
        assert_eq!(Credentials::current().gid, rustix::process::getegid().as_raw());
    }
}
