//! A storage that has answered and does not answer now may come back: a gateway starts anew, a network has a gap.

use object_store::client::{HttpError, HttpErrorKind, HttpResponse};
use std::time::{Duration, Instant};

/// The first wait; each further one is twice as long.
const WAIT: Duration = Duration::from_millis(200);
/// The longest one.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// A gap that is shorter is told to nobody.
const TOLD_FROM: Duration = Duration::from_secs(1);
/// How many seconds a storage may be away, if the user says it.
const VARIABLE: &str = "ICECORE_S3_AWAY_SECS";

/// How long a storage that is away is asked again. A request is signed once, and a signature of S3 counts for 15
/// minutes at most, with the clocks of both sides in between.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Away(pub Duration);

impl Away {
    /// For a command: a backup of hours survives a gateway that starts anew.
    pub const OF_A_COMMAND: Self = Self(Duration::from_secs(4 * 60));
    /// For a server: somebody waits for its answers, and nodes repeat what failed.
    pub const OF_A_SERVER: Self = Self(Duration::from_secs(30));
    /// For who wants to know now.
    pub const NONE: Self = Self(Duration::ZERO);

    /// As the environment says, else this.
    #[must_use]
    pub fn or_as_the_environment_says(self) -> Self {
        let secs = std::env::var(VARIABLE).ok().and_then(|secs| secs.parse().ok());
        secs.map_or(self, |secs| Self(Duration::from_secs(secs)))
    }
}

/// The answer of a storage that is away.
pub(crate) const UNAVAILABLE: u16 = 503;

/// Whether this is no answer of a storage that works. Of a request that was not carried by any connection, it is known
/// that it was not done.
pub(crate) fn is_away(answer: &Result<HttpResponse, HttpError>) -> bool {
    match answer {
        Ok(answer) => passes(answer.status().as_u16()),
        Err(error) => error.kind() == HttpErrorKind::Connect,
    }
}

/// Failed, bad gateway, unavailable, gateway timeout. What a storage does not have (501), it does not have later
/// either.
fn passes(status: u16) -> bool {
    matches!(status, 500 | 502..=504)
}

/// Whether the storage said no. That something is there already, or has changed, is looked at by who asked.
pub(crate) fn is_refusal(answer: &Result<HttpResponse, HttpError>) -> bool {
    let is_looked_at = |status| matches!(status, 409 | 412);
    let status = answer.as_ref().map(|answer| answer.status());
    status.is_ok_and(|status| status.is_client_error() && !is_looked_at(status.as_u16()))
}

/// The waits of one request.
pub(crate) struct Waits {
    until: Instant,
    next: Duration,
}

impl Waits {
    pub(crate) fn new(away: Away) -> Self {
        Self { until: Instant::now() + away.0, next: WAIT }
    }

    /// Whether people should hear of this wait.
    pub(crate) fn is_long(&self) -> bool {
        self.next > TOLD_FROM
    }

    /// How long to wait before the next try; `None` when it is time to give up.
    pub(crate) fn next(&mut self) -> Option<Duration> {
        let wait = self.next;
        self.next = WAIT_MAX.min(wait * 2);
        (Instant::now() + wait < self.until).then_some(wait)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_storage_does_not_have_is_not_waited_for() {
        assert!([500, 502, 503, 504].into_iter().all(passes));
        assert!(![200, 403, 404, 409, 412, 501, 505].into_iter().any(passes));
    }

    #[test]
    fn waits_grow_to_a_limit_and_end() {
        let mut waits = Waits::new(Away(Duration::from_secs(3600)));
        let lengths: Vec<_> = std::iter::from_fn(|| waits.next()).take(8).collect();
        assert_eq!(lengths[..2], [WAIT, 2 * WAIT]);
        assert_eq!(lengths[6..], [WAIT_MAX, WAIT_MAX]);
        assert_eq!(Waits::new(Away::NONE).next(), None);
        assert_eq!(Waits::new(Away(WAIT / 2)).next(), None);
    }
}
