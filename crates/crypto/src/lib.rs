//! Keys, ids and sealing. Pure: randomness comes in as bytes.
