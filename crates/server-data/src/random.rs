//! Random names and secrets.

use server_contract::access_control::Refusal;

pub(super) fn bytes<const N: usize>() -> Result<[u8; N], Refusal> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        Refusal::new(format!("the server cannot get random bytes: {error}"), "")
    })?;
    Ok(bytes)
}
