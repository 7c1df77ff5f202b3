//! Answers of a storage that does not do what it is asked.

use super::http::Answer;

/// The code of the answer to who asks once more for what is being brought back.
pub(super) const AGAIN: &str = "RestoreAlreadyInProgress";

/// A refusal with this code, in the form of S3.
pub(super) fn refusal(status: u16, code: &str, class: &str) -> Answer {
    let text = format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>The operation is not valid for the object's storage class</Message><StorageClass>{class}</StorageClass></Error>"
    );
    let head = format!("content-type: application/xml\r\ncontent-length: {}\r\n", text.len());
    Answer { status, head, body: text.into_bytes() }
}
