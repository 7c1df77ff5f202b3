//! Parity sections that nobody vouched for: heads, and containers of which anything has rotted.

use format::parity::Geometry;
use crate::memory::Reader;
use repository::parity::{Encoder, HealedFile, locate};
use repository::storage::FileReader;
use std::sync::Arc;

/// The longest container: some shards, so that each input is quick.
const CONTAINER_BYTES_MAX: usize = 64 << 10;

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    if let Ok(geometry) = Geometry::decode(bytes) {
        assert_eq!(bytes.get(..48), Some(&geometry.encode()[..]), "decoded and encoded");
        assert_eq!(geometry.group(geometry.groups()), None);
    }
    // Whatever stands there: it is read, or it is not, and nothing panics.
    heal(bytes.to_vec());
    let Some((plan, content)) = bytes.split_first_chunk::<8>() else {
        return;
    };
    let content = &content[..content.len().min(CONTAINER_BYTES_MAX)];
    let percent = u32::from(plan[0] % 25) + 1;
    let Some(good) = with_parity(content, percent) else {
        return;
    };
    let mut rotten = good.clone();
    // Up to two sectors: that many every container survives, wherever they lie.
    for sector in [plan[1], plan[2]] {
        let sectors = good.len().div_ceil(4096);
        let start = usize::from(sector) % sectors * 4096;
        let end = (start + 4096).min(rotten.len());
        rotten[start..end].iter_mut().for_each(|byte| *byte ^= plan[3]);
    }
    // Both heads may be among them: then there is no parity, and nothing is made up.
    if let Some(healed) = heal(rotten) {
        assert!(healed == content, "healed into something else");
    }
}

/// A container of any content, with its parity.
fn with_parity(content: &[u8], percent: u32) -> Option<Vec<u8>> {
    let mut encoder = Encoder::new(percent);
    let mut bytes = content.to_vec();
    encoder.push(content).ok()?;
    let append = |parts: &[&[u8]]| {
        bytes.extend(parts.concat());
        Ok(())
    };
    encoder.finish(append).ok()?;
    Some(bytes)
}

/// What is protected, as far as it can be made good.
fn heal(bytes: Vec<u8>) -> Option<Vec<u8>> {
    let file = Arc::new(Reader(bytes));
    let geometry = locate(&*file).ok()??.geometry;
    let healed = HealedFile::new(file, geometry);
    let mut content = vec![0; geometry.protected() as usize];
    healed.read_exact_at(&mut content, 0).ok()?;
    Some(content)
}
