//! The connection of a storage server to the control server: the HTTP API, with its own certificate.

use access::{Error, LiveIdentity};
use serde_json::Value;
use server::storage_server::{ControlServer, ControlServerError};
use std::sync::Arc;
use std::time::Duration;

/// A control server that does not reply within this time is unreachable: nodes wait for the reply.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Asks the control server, always with the current certificate.
pub(super) struct Asking(pub(super) Arc<LiveIdentity>);

impl ControlServer for Asking {
    fn post(&self, path: &str, body: Value) -> std::result::Result<Value, ControlServerError> {
        let client = self.0.client();
        let asked = async {
            let answer = tokio::time::timeout(ANSWER_WITHIN, client.post(path, &body)).await;
            answer
                .map_err(|_| {
                    ControlServerError::Unreachable(format!("no answer in {ANSWER_WITHIN:?}"))
                })?
                .map_err(trouble)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| ControlServerError::Unreachable(error.to_string()))?.block_on(asked)
    }
}

/// It refused, or there is no reply.
fn trouble(error: Error) -> ControlServerError {
    const SAYS_NO: [api::Code; 2] = [api::Code::NotAllowed, api::Code::Usage];
    match error {
        Error::Server(reported) if SAYS_NO.contains(&api::Code::of_number(reported.code)) => {
            ControlServerError::Refused {
                message: reported.message,
                hint: reported.hint.unwrap_or_default(),
            }
        }
        Error::Server(reported) if api::Code::of_number(reported.code) == api::Code::InUse => {
            ControlServerError::NotNow(reported.message)
        }
        // Its sessions go on: the clock of the server may be wrong.
        Error::Expired { .. } => {
            let next = error.hint().unwrap_or_default();
            ControlServerError::Unreachable(format!("{error}. {next}"))
        }
        other => ControlServerError::Unreachable(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_passes_is_no_refusal() {
        let said = |code| trouble(Error::Server(api::Failure::new(code, "is being moved")));
        assert!(matches!(said(api::Code::InUse), ControlServerError::NotNow(_)));
        assert!(matches!(said(api::Code::NotAllowed), ControlServerError::Refused { .. }));
    }
}
