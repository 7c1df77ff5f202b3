//! Whether settings can be what they should be, before anything is asked with them: the library asserts that they are.
//! What is wrong is told without its value, which may be a secret in the wrong place.

use crate::credentials::Credentials;
use object_store::client::HttpRequest;

const ENDPOINT: &str = "AWS_ENDPOINT_URL or AWS_ENDPOINT_URL_S3";

/// Refuses credentials and an endpoint of which no request can be made.
///
/// # Errors
/// Which setting is wrong, and what it should look like.
pub(crate) fn check(credentials: &Credentials) -> Result<(), String> {
    let Credentials { access_key, secret_key, session_token, region, endpoint, process: _ } =
        credentials;
    if let Some(why) = endpoint.as_ref().and_then(|endpoint| endpoint_error(endpoint)) {
        return Err(format!(
            "{ENDPOINT} {why}; it should look like https://s3.example.com or http://127.0.0.1:9000"
        ));
    }
    let is_region = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if region.is_empty() || !region.bytes().all(is_region) {
        return Err(
            "AWS_REGION or AWS_DEFAULT_REGION (in a profile: region) has characters other than \
                    letters, digits and - _ . : it should look like eu-central-1"
                .into(),
        );
    }
    check_keys(access_key, secret_key, session_token.as_deref())
}

/// The same of keys alone.
pub(crate) fn check_keys(
    access_key: &str,
    secret_key: &str,
    session_token: Option<&str>,
) -> Result<(), String> {
    let keys = [
        ("AWS_ACCESS_KEY_ID", access_key),
        ("AWS_SECRET_ACCESS_KEY", secret_key),
        ("AWS_SESSION_TOKEN", session_token.unwrap_or("none")),
    ];
    let is_whole =
        |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_graphic());
    match keys.into_iter().find(|(_, text)| !is_whole(text)) {
        None => Ok(()),
        Some((name, _)) => Err(format!(
            "{name} (or what a profile or credential_process gives for it) is empty, or has a line break, a space or \
             another sign that no key has: copy it again, as one word"
        )),
    }
}

/// What is wrong with an endpoint.
fn endpoint_error(endpoint: &str) -> Option<&'static str> {
    if endpoint.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Some("has a space, a line break or another sign that no address has");
    }
    if !["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme)) {
        return Some("does not begin with http:// or https://");
    }
    // The parser takes no notice of what comes behind.
    if endpoint.contains(['?', '#']) {
        return Some("has a query or a fragment (? or #)");
    }
    let mut request = HttpRequest::new(bytes::Bytes::new().into());
    match endpoint.parse() {
        Ok(uri) => *request.uri_mut() = uri,
        Err(_) => return Some("is no address"),
    }
    let Some(authority) = request.uri().authority() else { return Some("names no host") };
    if authority.as_str().contains('@') {
        return Some("has a user or a password (before @)");
    }
    let port = authority.as_str().strip_prefix(authority.host()).unwrap_or_default();
    if !port.is_empty() && authority.port_u16().is_none_or(|port| port == 0) {
        return Some("has no port between 1 and 65535 behind the colon");
    }
    (!is_host(authority.host())).then_some("names no host")
}

/// A name, or an address of four numbers, or of IPv6 in brackets.
fn is_host(host: &str) -> bool {
    if let Some(inner) = host.strip_prefix('[') {
        let inner = inner.strip_suffix(']').unwrap_or_default();
        return inner.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return host.parse::<std::net::Ipv4Addr>().is_ok();
    }
    let is_sign = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    host.bytes().all(is_sign)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Credentials {
        Credentials {
            access_key: "AKIA/+=_-.".into(),
            secret_key: "hush+/=".into(),
            session_token: None,
            region: "eu-central-1".into(),
            endpoint: None,
            process: None,
        }
    }

    #[test]
    fn endpoints_that_are_addresses_are_used() {
        for endpoint in [
            "https://s3.example.com",
            "http://127.0.0.1:18471/",
            "http://localhost:9000",
            "http://minio_1:9000",
            "http://[::1]:9000",
            "https://x.supabase.co/storage/v1/s3",
        ] {
            assert_eq!(check(&Credentials { endpoint: Some(endpoint.into()), ..good() }), Ok(()));
        }
    }

    #[test]
    fn an_endpoint_that_is_no_address_is_refused_with_the_name_of_its_variable() {
        for endpoint in [
            "s3.example.com",
            "localhost:18471",
            " http://127.0.0.1:18471",
            "http://127.0.0.1:18471\n",
            "https:/x",
            "https://",
            "http://:9000",
            "http://[::1",
            "http://[::x]:1",
            "http://127.0.0.1:99999",
            "http://127.0.0.1:0",
            "http://127.0.0.1:",
            "http://127.0.0.256:9000",
            "http://exa%20mple",
            "ftp://x",
            "http://127.0.0.1:18471?x=1",
            "http://127.0.0.1:18471/#x",
            "http://user:hush@127.0.0.1",
        ] {
            let refused = check(&Credentials { endpoint: Some(endpoint.into()), ..good() });
            let why = refused.expect_err(endpoint);
            assert!(why.contains("AWS_ENDPOINT_URL") && !why.contains("hush"), "{why}");
        }
    }

    #[test]
    fn keys_and_regions_that_no_request_can_carry_are_refused_without_showing_them() {
        let with = |name, text: &str| {
            let (mut changed, text) = (good(), text.to_owned());
            match name {
                "AWS_ACCESS_KEY_ID" => changed.access_key = text,
                "AWS_SECRET_ACCESS_KEY" => changed.secret_key = text,
                "AWS_SESSION_TOKEN" => changed.session_token = Some(text),
                _ => changed.region = text,
            }
            check(&changed)
        };
        for name in
            ["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_REGION"]
        {
            assert_eq!(with(name, "plain"), Ok(()));
            for text in ["hush\n", "hu sh", "hush\u{7f}", "hush\u{e9}"] {
                let why = with(name, text).expect_err(name);
                assert!(why.contains(name) && !why.contains("hu"), "{why}");
            }
        }
    }
}
