//! On which storage server a new domain is created, when nobody says: weighted rendezvous hashing.
//!
//! Each server has a score for each domain: `-weight / ln(u)`, where `u` is a number between 0 and 1 made of both names.
//! The highest one wins. Servers get domains in proportion to their weights, and which of two servers is better for a
//! domain does not depend on others (Thaler and Ravishankar 1998; weights as in Schindelhauer and Schomaker 2005).

use api::Name;

/// What a storage server has room for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// So many bytes.
    Bytes(u64),
    /// Nobody knows the end of a bucket. It counts as much as the one with the most free bytes.
    Unbounded,
}

/// The one of these storage servers that gets `domain`; `None` if there is none with room.
pub(crate) fn choose(domain: &Name, servers: &[(Name, Room)]) -> Option<Name> {
    let bytes = |room: Room| match room {
        Room::Bytes(bytes) => bytes,
        Room::Unbounded => 0,
    };
    let most = servers.iter().map(|(_, room)| bytes(*room)).max().unwrap_or(0).max(1);
    let weight = |room: Room| if room == Room::Unbounded { most } else { bytes(room) };
    let weighed = servers.iter().map(|(name, room)| (name, weight(*room)));
    let with_room = weighed.filter(|(_, weight)| *weight > 0);
    let scored = with_room.map(|(name, weight)| (score(domain, name, weight), name));
    scored.max_by(|one, other| one.0.total_cmp(&other.0)).map(|(_, name)| name.clone())
}

fn score(domain: &Name, server: &Name, weight: u64) -> f64 {
    let hash = pki::fingerprint(format!("{domain}\0{server}").as_bytes());
    let (bits, _) = hash.split_first_chunk().unwrap_or((&[0; 8], &[]));
    // 53 bits fit a float; a half more, so that it is never 0 or 1.
    let part = ((u64::from_le_bytes(*bits) >> 11) as f64 + 0.5) / (1_u64 << 53) as f64;
    -(weight as f64) / part.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn servers(free: &[u64]) -> Vec<(Name, Room)> {
        let server = |(at, free): (usize, &u64)| (name(&format!("disk-{at}")), Room::Bytes(*free));
        free.iter().enumerate().map(server).collect()
    }

    fn homes(servers: &[(Name, Room)]) -> Vec<Option<Name>> {
        (0..10_000).map(|number| choose(&name(&format!("domain-{number}")), servers)).collect()
    }

    #[test]
    fn domains_are_spread_as_there_is_room() {
        let found = homes(&servers(&[1 << 40, 3 << 40, 0]));
        let count = |number: usize| {
            let wanted = Some(name(&format!("disk-{number}")));
            found.iter().filter(|home| **home == wanted).count()
        };
        assert!((2_300..2_700).contains(&count(0)), "{}", count(0));
        assert_eq!((count(0) + count(1), count(2)), (10_000, 0));
    }

    #[test]
    fn another_server_takes_its_part_and_nothing_else_changes() {
        let (before, after) = (homes(&servers(&[5, 5])), homes(&servers(&[5, 5, 5])));
        let new = Some(name("disk-2"));
        let moved = before.iter().zip(&after).filter(|(was, is)| was != is);
        assert!(moved.clone().all(|(_, is)| *is == new));
        assert!((3_000..3_700).contains(&moved.count()));
    }

    #[test]
    fn a_bucket_counts_as_much_as_the_one_with_the_most_room() {
        let bucket = |number: u64| (name(&format!("bucket-{number}")), Room::Unbounded);
        let of = |servers: &[(Name, Room)], wanted: &Name| {
            homes(servers).iter().filter(|home| home.as_ref() == Some(wanted)).count()
        };
        let mixed = [servers(&[1 << 40, 3 << 40, 0]), vec![bucket(0)]].concat();
        assert!((4_050..4_500).contains(&of(&mixed, &bucket(0).0)));
        let alone = [bucket(0), bucket(1)];
        assert!((4_800..5_200).contains(&of(&alone, &bucket(0).0)));
        let full = [servers(&[0]), vec![bucket(0)]].concat();
        assert_eq!(of(&full, &bucket(0).0), 10_000);
    }

    #[test]
    fn without_room_there_is_none() {
        assert_eq!(choose(&name("web"), &[]), None);
        assert_eq!(choose(&name("web"), &servers(&[0, 0])), None);
        assert_eq!(choose(&name("web"), &servers(&[0, 1])), Some(name("disk-1")));
    }
}
