//! Answers to requests for a list that are none. A broken proxy, and some storages, too, answer with a status of
//! success and have an error in the body. Who parses that leniently takes it for a list without names: all is gone.

use crate::away::UNAVAILABLE;
use bytes::Bytes;
use object_store::client::{HttpError, HttpRequest, HttpResponse};
use quick_xml::Reader;
use quick_xml::escape::escape;
use quick_xml::events::Event;

/// Parts of queries that ask for a list, and the element that is all of the answer.
const LISTS: [(&str, &str); 3] = [
    ("list-type", "ListBucketResult"),
    ("versions", "ListVersionsResult"),
    ("uploads", "ListMultipartUploadsResult"),
];
/// So many signs of what came instead are shown.
const SHOWN_MAX: usize = 80;

/// The element that the answer to `request` has to be, if it asks for a list.
pub(crate) fn asked(request: &HttpRequest) -> Option<&'static str> {
    let query = request.uri().query().filter(|_| request.method() == "GET")?;
    let has = |name| query.split('&').any(|pair| pair.split('=').next() == Some(name));
    LISTS.into_iter().find(|(part, _)| has(part)).map(|(_, element)| element)
}

/// The `answer`; one that is no `element` as that of a storage that is away, which says what came.
pub(crate) async fn checked(
    answer: HttpResponse,
    element: &str,
) -> Result<HttpResponse, HttpError> {
    if !answer.status().is_success() {
        return Ok(answer);
    }
    let (mut parts, body) = answer.into_parts();
    let mut body = body.bytes().await?;
    if !is_whole(&body, element)
        && let Ok(status) = UNAVAILABLE.try_into()
    {
        parts.status = status;
        parts.headers.remove("content-length");
        body = refusal(&body);
    }
    Ok(HttpResponse::from_parts(parts, body.into()))
}

/// Whether `body` begins as the XML `element`, and ends as it.
fn is_whole(body: &[u8], element: &str) -> bool {
    let Ok(text) = std::str::from_utf8(body) else { return false };
    let is_ended = text.trim_end().strip_suffix('>').is_some_and(|it| it.ends_with(element));
    is_ended && root(text).is_some_and(|name| name == element)
}

/// The name of the element that is all of `text`.
fn root(text: &str) -> Option<String> {
    let mut reader = Reader::from_str(text);
    loop {
        match reader.read_event().ok()? {
            Event::Start(start) => {
                return String::from_utf8(start.local_name().as_ref().to_vec()).ok();
            }
            Event::Decl(_) | Event::Comment(_) | Event::PI(_) | Event::Text(_) => {}
            _ => return None,
        }
    }
}

/// What is said of it, as a storage says of an error.
fn refusal(body: &[u8]) -> Bytes {
    let text = String::from_utf8_lossy(body);
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    let more = if shown.len() < text.len() { "…" } else { "" };
    let message = format!("it answered a request for a list with something else: {shown}{more}");
    let message = escape(&*message);
    format!("<Error><Code>NoList</Code><Message>{message}</Message></Error>").into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_whole_list_is_one() {
        let is_list = |text: &str| is_whole(text.as_bytes(), "ListBucketResult");
        for list in [
            "<ListBucketResult><Name>b</Name></ListBucketResult>",
            "\u{feff}<?xml version=\"1.0\"?>\n<!-- x -->\n<a:ListBucketResult xmlns:a='y'></a:ListBucketResult>\n",
        ] {
            assert!(is_list(list), "{list}");
        }
        for other in [
            "",
            "<html></html>",
            "<Error><Code>InternalError</Code></Error>",
            "<ListBucketResult><Name>b</Na",
            "<ListAllMyBucketsResult></ListAllMyBucketsResult>",
            "<Error><ListBucketResult></ListBucketResult>",
            "{\"a\": 1}",
        ] {
            assert!(!is_list(other), "{other}");
        }
        assert!(!is_whole(b"\xff<ListBucketResult></ListBucketResult>", "ListBucketResult"));
    }

    #[test]
    fn what_came_instead_is_said() {
        let said = refusal(b"<html>\n<b>late</b>").to_vec();
        let said = String::from_utf8(said).unwrap();
        assert!(said.contains("something else: &lt;html&gt; &lt;b&gt;late"), "{said}");
        assert!(refusal("é".repeat(1000).as_bytes()).len() < 400);
    }
}
