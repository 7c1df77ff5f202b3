//! Directories in which something should be mounted, as the machine's own table says (fstab(5)).

use crate::overlay::unescaped;

/// The table of this machine.
const TABLE: &str = "/etc/fstab";

/// What is in memory is empty after each start.
const IN_MEMORY: [&[u8]; 3] = [b"tmpfs", b"ramfs", b"hugetlbfs"];

/// Those that are mounted when the machine starts, without a slash at the end. None where there is no table.
pub fn wanted() -> Vec<Vec<u8>> {
    of_table(&std::fs::read(TABLE).unwrap_or_default())
}

/// What is mounted by hand only (`noauto`), and swap, is not wanted.
fn of_table(table: &[u8]) -> Vec<Vec<u8>> {
    table.split(|byte| *byte == b'\n').filter_map(of_line).collect()
}

fn of_line(line: &[u8]) -> Option<Vec<u8>> {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let (device, path, kind, options) =
        (fields.next()?, fields.next()?, fields.next()?, fields.next());
    let by_hand = options.unwrap_or_default().split(|byte| *byte == b',').any(|it| it == b"noauto");
    let mut path = unescaped(path);
    while path.len() > 1 && path.ends_with(b"/") {
        path.pop();
    }
    let is_wanted = !device.starts_with(b"#") && !by_hand && !IN_MEMORY.contains(&kind);
    (is_wanted && path.starts_with(b"/")).then_some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_mounted_at_the_start_is_wanted() {
        let table = b"# device\tpath\n\nUUID=1 / ext4 defaults 0 1\n/dev/sdb1\t/srv/a\\040b/ xfs nofail\n\
            /dev/sdc1 /mnt/usb vfat rw,noauto,user\n/swap none swap sw\n#/dev/sdd1 /old ext4\nbroken\n\
            nas:/x /srv/nas nfs\ntmpfs /dev/shm tmpfs size=1g 0 0\n";
        let wanted: Vec<_> =
            of_table(table).into_iter().map(|it| it.escape_ascii().to_string()).collect();
        assert_eq!(wanted, ["/", "/srv/a b", "/srv/nas"]);
        assert!(of_table(b"").is_empty() && of_table(b" \n\t\n/ /").is_empty());
    }
}
