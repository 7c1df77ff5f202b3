//! The administrator, who shows a token.

use crate::attempt_limiter::AttemptLimiter;
use crate::refusal_log::RefusalLog;
use crate::{Error, Result, random};
use server_contract::folder::Folder;
use std::net::IpAddr;
use std::sync::Arc;
use zeroize::Zeroizing;

const FILE: &str = "admin-token";
/// Shorter ones, and those of other bytes, are what a full or damaged disk left, and could be guessed.
const BYTES_MIN: usize = 32;

/// Recognizes the administrator.
pub(crate) struct Administrator {
    token: Zeroizing<String>,
    attempts: Arc<AttemptLimiter>,
    refusals: Arc<RefusalLog>,
}

impl Administrator {
    /// The one who can read the token in `folder`, which is made when there is none.
    ///
    /// # Errors
    /// [`crate::Error::System`]; [`crate::Error::Usage`] when the file holds no token.
    pub(crate) fn open(
        folder: &Folder,
        attempts: Arc<AttemptLimiter>,
        refusals: Arc<RefusalLog>,
    ) -> Result<Self> {
        let token = folder.secret(FILE, new_token)?;
        let is_text = token.bytes().all(|byte| byte.is_ascii_graphic());
        if token.len() < BYTES_MIN || !is_text {
            return Err(Error::Usage(format!(
                "{} holds no token of an administrator: remove it, and the next start makes a new one",
                folder.file(FILE).display()
            )));
        }
        Ok(Self { token, attempts, refusals })
    }

    /// Whether `given`, from the address `from`, is the administrator's token. A right token is always good: else
    /// whoever shares the address could keep the administrator out.
    ///
    /// # Errors
    /// [`crate::Error::TooMany`] when the address has shown too many wrong ones.
    pub(crate) fn is_shown_by(&self, given: &str, from: IpAddr) -> Result<bool> {
        if self.is_token(given) {
            return Ok(true);
        }
        self.attempts.check(from)?;
        self.attempts.failed(from);
        let why = "it is not the token of this server";
        self.refusals.refused("an administrator's token", &why, Some(from));
        Ok(false)
    }

    /// Compares in constant time.
    fn is_token(&self, given: &str) -> bool {
        let hash = |text: &str| pki::fingerprint(text.as_bytes());
        let (given, right) = (hash(given), hash(&self.token));
        aws_lc_rs::constant_time::verify_slices_are_equal(&given, &right).is_ok()
    }
}

fn new_token() -> Result<Zeroizing<String>> {
    Ok(Zeroizing::new(data_encoding::HEXLOWER.encode(&random::<32>()?[..])))
}
