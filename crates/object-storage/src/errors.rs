//! Errors of the object storage as the engine tells them apart.

use object_store::client::{HttpError, HttpErrorKind};
use repository::storage::{Archived, StorageError};
use std::error::Error as _;
use std::io::{self, ErrorKind};

/// Answers of a storage that is full.
const FULL: [&str; 4] = ["QuotaExceeded", "StorageFull", "InsufficientStorage", "status code: 507"];
/// What this client makes of the status 507 (insufficient storage). No storage answers with it.
pub(crate) const FULL_STATUS: u16 = 477;
/// Answers of a storage that is busy or ill.
const BUSY: [&str; 2] = ["status code: 5", "status code: 429"];

/// Answers to who may not do that, is somebody else, or may do it no more (which has the status of a bad request).
const REFUSED: [&str; 4] = ["status code: 401", "status code: 403", "ExpiredToken", "InvalidToken"];
/// The end of an object comes before what is asked of it; a storage in memory says it in words.
const ENDS: [&str; 2] = ["status code: 416", "but object was only"];

/// The answer to who reads an object that lies in an archive. Its status is that of a lack of permission.
const ARCHIVED: &str = "InvalidObjectState";
/// The answer to who writes into a storage class that there is not.
const NO_CLASS: &str = "<Code>InvalidStorageClass</Code>";
/// The answer to who asks once more for an object that is being brought back.
const UNDER_WAY: &str = "RestoreAlreadyInProgress";

/// An object that nobody who keeps to the format has written.
pub(crate) const TOO_LARGE: &str = "are more than such an object can have";

/// The library has found a bug, its own or ours.
const PANICKED: &str = "a request panicked, which is a bug: please report what is written above";

/// The error of `operation` on the object `name`.
pub(crate) fn failed(
    operation: &'static str,
    name: &str,
    error: &object_store::Error,
) -> StorageError {
    let text =
        in_one_line(error).replace(&format!("status code: {FULL_STATUS}"), "status code: 507");
    if let Some(archived) = archived(&text) {
        return StorageError::new(operation, name, archived);
    }
    let kind = kind(error, &text);
    let shown = said(&text).or_else(|| unheard(&text)).unwrap_or(text);
    StorageError::new(operation, name, io::Error::new(kind, shown))
}

/// In which class an object lies that cannot be read because of that.
fn archived(text: &str) -> Option<Archived> {
    let is_archived = part(text, "Code") == Some(ARCHIVED);
    let class = || part(text, "StorageClass").unwrap_or_default().to_owned();
    is_archived.then(|| Archived { class: class() })
}

/// Why there was no answer, and of whom: without what the library says of its tries.
fn unheard(text: &str) -> Option<String> {
    let (tries, why) = text.rsplit_once("HTTP error: ")?;
    let (scheme, rest) = tries.split_once("://")?;
    let scheme = scheme.rsplit(' ').next()?;
    let host = rest.split(['/', '?', ' ']).next()?;
    let why = why.trim_start_matches("error sending request: ");
    Some(format!("{scheme}://{host} does not answer: {why}"))
}

fn kind(error: &object_store::Error, text: &str) -> ErrorKind {
    use object_store::Error;
    match error {
        Error::NotFound { .. } => ErrorKind::NotFound,
        // A listing has no kinds of errors.
        Error::Generic { .. } if text.contains("NoSuchBucket") => ErrorKind::NotFound,
        Error::Generic { .. } if REFUSED.iter().any(|word| text.contains(word)) => {
            ErrorKind::PermissionDenied
        }
        Error::AlreadyExists { .. } | Error::Precondition { .. } => ErrorKind::AlreadyExists,
        Error::PermissionDenied { .. } | Error::Unauthenticated { .. } => {
            ErrorKind::PermissionDenied
        }
        Error::NotImplemented { .. } | Error::NotSupported { .. } => ErrorKind::Unsupported,
        _ if text.contains(NO_CLASS) => ErrorKind::Unsupported,
        _ if FULL.iter().any(|word| text.contains(word)) => ErrorKind::StorageFull,
        _ if ENDS.iter().any(|word| text.contains(word)) => ErrorKind::UnexpectedEof,
        _ if BUSY.iter().any(|word| text.contains(word)) => ErrorKind::TimedOut,
        _ if text.contains(TOO_LARGE) => ErrorKind::InvalidData,
        // Whatever else is answered says nothing about the object: taken for damage, it would be given up.
        _ => http_kind(error).unwrap_or(ErrorKind::ConnectionAborted),
    }
}

/// The connection's own error, somewhere below.
fn http_kind(error: &object_store::Error) -> Option<ErrorKind> {
    let mut next = error.source();
    while let Some(below) = next {
        if let Some(http) = below.downcast_ref::<HttpError>() {
            return Some(connection_kind(http));
        }
        next = below.source();
    }
    None
}

fn connection_kind(error: &HttpError) -> ErrorKind {
    match error.kind() {
        HttpErrorKind::Connect => ErrorKind::ConnectionRefused,
        HttpErrorKind::Timeout => ErrorKind::TimedOut,
        _ => ErrorKind::ConnectionReset,
    }
}

/// The error of `operation` on `name`, whose request was not answered.
pub(crate) fn unanswered(operation: &'static str, name: &str, error: &HttpError) -> StorageError {
    let reason = io::Error::new(connection_kind(error), in_one_line(error));
    StorageError::new(operation, name, reason)
}

/// The error of `operation` on `name`, whose request was answered with this status and text.
pub(crate) fn answered(
    operation: &'static str,
    name: &str,
    status: u16,
    text: &str,
) -> StorageError {
    if let Some(archived) = archived(text) {
        return StorageError::new(operation, name, archived);
    }
    let status = if status == FULL_STATUS { 507 } else { status };
    let kind = match status {
        409 if part(text, "Code") == Some(UNDER_WAY) => ErrorKind::AlreadyExists,
        _ if FULL.iter().any(|word| text.contains(word)) => ErrorKind::StorageFull,
        401 | 403 => ErrorKind::PermissionDenied,
        // The last version of an object can be the mark that it was removed.
        404 | 405 => ErrorKind::NotFound,
        501 => ErrorKind::Unsupported,
        507 => ErrorKind::StorageFull,
        408 | 409 | 429 | 500.. => ErrorKind::TimedOut,
        _ => ErrorKind::InvalidInput,
    };
    let shown = said(text).unwrap_or_else(|| format!("it answered with status {status}"));
    StorageError::new(operation, name, io::Error::new(kind, shown))
}

/// There are no credentials for a request.
pub(crate) fn of_credentials(why: String) -> object_store::Error {
    object_store::Error::Unauthenticated { path: String::new(), source: why.into() }
}

/// A request ended in a panic: nobody can say what was done.
pub(crate) fn panicked() -> object_store::Error {
    object_store::Error::Generic { store: "S3", source: PANICKED.into() }
}

/// Whether the storage said no, so that nothing was done and nothing will be.
pub(crate) fn is_final(error: &object_store::Error) -> bool {
    use object_store::Error::{
        AlreadyExists, NotFound, NotImplemented, NotSupported, PermissionDenied, Precondition,
        Unauthenticated,
    };
    matches!(
        error,
        AlreadyExists { .. }
            | NotFound { .. }
            | NotImplemented { .. }
            | NotSupported { .. }
            | PermissionDenied { .. }
            | Precondition { .. }
            | Unauthenticated { .. }
    )
}

/// What the storage itself says in `text`: its code and its words.
fn said(text: &str) -> Option<String> {
    let code = part(text, "Code")?;
    let words = part(text, "Message").filter(|words| !words.is_empty()).map(plain);
    Some(words.map_or_else(|| code.to_owned(), |words| format!("{words} ({code})")))
}

/// What `text` of an XML document says, without signs that a terminal would obey. As it is where it is no good XML.
fn plain(text: &str) -> String {
    let words = quick_xml::escape::unescape(text).unwrap_or_else(|_| text.into());
    words.replace(char::is_control, " ").split_whitespace().collect::<Vec<_>>().join(" ")
}

/// What the element `name` of `text` has.
fn part<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    rest.split_once(&format!("</{name}>")).map(|(part, _)| part.trim())
}

/// In one line, with the deepest reason.
fn in_one_line(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(below) = next {
        let reason = below.to_string();
        if !text.contains(&reason) {
            text = format!("{text}: {reason}");
        }
        next = below.source();
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> StorageError {
        let error = object_store::Error::Generic { store: "S3", source: text.to_owned().into() };
        failed("list", "x", &error)
    }

    #[test]
    fn what_the_storage_says_is_shown_and_its_kind_is_known() {
        let missing = of(
            "status code: 404 Not Found: <Error><Code>NoSuchBucket</Code><Message>No such one.</Message></Error>",
        );
        assert!(missing.is_not_found());
        assert_eq!(missing.to_string(), "cannot list x: No such one. (NoSuchBucket)");
        assert_eq!(of("status code: 403 Forbidden").source.kind(), ErrorKind::PermissionDenied);
        assert!(of("status code: 507 x").is_full() && of("<Code>QuotaExceeded</Code>").is_full());
        assert!(of("status code: 503 Slow Down").is_unreachable());
        assert_eq!(of("status code: 416 x").source.kind(), ErrorKind::UnexpectedEof);
    }

    #[test]
    fn what_the_storage_says_is_shown_as_people_read_it() {
        let said = |words: &str| {
            let text = format!("<Error><Code>X</Code><Message>{words}</Message></Error>");
            answered("list", "x", 400, &text).source.to_string()
        };
        let wrong =
            "the region &#34;eu&#34; is wrong; expecting &quot;us&quot; &amp; &#x27;a&#x27;";
        assert_eq!(said(wrong), "the region \"eu\" is wrong; expecting \"us\" & 'a' (X)");
        assert_eq!(said("a &lt; b &gt; c &apos;"), "a < b > c ' (X)");
        assert_eq!(said("one&#10;two&#27; &amp;lt;"), "one two &lt; (X)");
        assert_eq!(said("Q&A &unknown;"), "Q&A &unknown; (X)", "no XML, and shown all the same");
    }

    #[test]
    fn who_does_not_answer_is_named() {
        let text = "Generic S3 error: Error performing list request: Error performing GET http://127.0.0.1:10849/b?list-type=2 in 471.6ms, after 2 retries, max_retries: 2, retry_timeout: 60s - HTTP error: error sending request: client error (Connect): tcp connect error: Connection refused (os error 111)";
        let why = "client error (Connect): tcp connect error: Connection refused (os error 111)";
        let shown = format!("http://127.0.0.1:10849 does not answer: {why}");
        assert_eq!(unheard(text), Some(shown));
        assert_eq!(unheard("status code: 503 Slow Down"), None);
    }

    #[test]
    fn an_answer_that_says_nothing_about_an_object_is_not_its_damage() {
        for code in ["ExpiredToken", "InvalidToken"] {
            let kind = of(&format!("status code: 400 x: <Code>{code}</Code>")).source.kind();
            assert_eq!(kind, ErrorKind::PermissionDenied, "{code}");
        }
        for text in [
            "status code: 400 x",
            "status code: 408 x",
            "status code: 418 x",
            "Received redirect",
            "no range",
        ] {
            assert!(of(text).is_unreachable(), "{text}");
        }
    }
}
