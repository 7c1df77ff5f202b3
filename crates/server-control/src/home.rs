//! On which storage server a new domain is created, when nobody says: weighted rendezvous hashing.
//!
//! Each server has a score for each domain: `-weight / ln(u)`, where `u` is a number between 0 and 1 made of both names.
//! The highest one wins. Servers get domains in proportion to their weights, and which of two servers is better for a
//! domain does not depend on others (Thaler and Ravishankar 1998; weights as in Schindelhauer and Schomaker 2005).

use api::Name;

/// The one of these storage servers, each with its free bytes, that gets `domain`; `None` if there is none with room.
pub(crate) fn choose(domain: &Name, servers: &[(Name, u64)]) -> Option<Name> {
    let with_room = servers.iter().filter(|(_, free_bytes)| *free_bytes > 0);
    let scored = with_room.map(|(name, free_bytes)| (score(domain, name, *free_bytes), name));
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

    fn servers(free: &[u64]) -> Vec<(Name, u64)> {
        free.iter().enumerate().map(|(at, free)| (name(&format!("disk-{at}")), *free)).collect()
    }

    fn homes(servers: &[(Name, u64)]) -> Vec<Option<Name>> {
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
    fn without_room_there_is_none() {
        assert_eq!(choose(&name("web"), &[]), None);
        assert_eq!(choose(&name("web"), &servers(&[0, 0])), None);
        assert_eq!(choose(&name("web"), &servers(&[0, 1])), Some(name("disk-1")));
    }
}
