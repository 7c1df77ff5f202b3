//! The way of a storage server to the governing server: the HTTP API, with its own certificate.

use access::{Error, Kept};
use serde_json::Value;
use server::storing::{Governing, Trouble};
use std::sync::Arc;
use std::time::Duration;

/// Who does not answer for so long is away: nodes wait for the answer.
const ANSWER_WITHIN: Duration = Duration::from_secs(10);

/// Asks the governing server, always with the certificate of the moment.
pub(super) struct Asking(pub(super) Arc<Kept>);

impl Governing for Asking {
    fn post(&self, path: &str, body: Value) -> std::result::Result<Value, Trouble> {
        let client = self.0.client();
        let asked = async {
            let answer = tokio::time::timeout(ANSWER_WITHIN, client.post(path, &body)).await;
            answer
                .map_err(|_| Trouble::Away(format!("no answer in {ANSWER_WITHIN:?}")))?
                .map_err(trouble)
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        runtime.map_err(|error| Trouble::Away(error.to_string()))?.block_on(asked)
    }
}

/// It said no, or there is no answer.
fn trouble(error: Error) -> Trouble {
    const SAYS_NO: [api::Code; 2] = [api::Code::NotAllowed, api::Code::Usage];
    match error {
        Error::Server(told) if SAYS_NO.contains(&api::Code::of_number(told.code)) => {
            Trouble::Refused { message: told.message, hint: told.hint.unwrap_or_default() }
        }
        other => Trouble::Away(other.to_string()),
    }
}
