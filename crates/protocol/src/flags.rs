//! One flag for each id of a request: one bit each, lowest bit first.

use crate::{Error, Packet, Result};

/// The packet with these flags.
pub fn pack(answers: &[bool]) -> Packet {
    let mut bits = vec![0u8; answers.len().div_ceil(8)];
    for (at, _) in answers.iter().enumerate().filter(|(_, yes)| **yes) {
        bits[at / 8] |= 1 << (at % 8);
    }
    Packet::Flags { count: answers.len() as u32, bits }
}

/// The flags in the reply to a request with `count` ids.
pub fn unpack(said: u32, bits: &[u8], count: usize) -> Result<Vec<bool>> {
    if said as usize != count || bits.len() != count.div_ceil(8) {
        return Err(Error::Unrequested { packet: "Answers" });
    }
    Ok((0..count).map(|at| bits[at / 8] >> (at % 8) & 1 == 1).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_back_and_must_be_as_many_as_were_asked() {
        for count in 0..20 {
            let answers: Vec<bool> = (0..count).map(|at| at % 3 == 0).collect();
            let Packet::Flags { count: said, bits } = pack(&answers) else { panic!() };
            assert_eq!(unpack(said, &bits, count).unwrap(), answers);
            assert!(unpack(said, &bits, count + 1).is_err());
        }
        assert!(unpack(9, &[0], 9).is_err());
    }
}
