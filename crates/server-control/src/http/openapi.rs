//! The OpenAPI document, made from the handlers and the types that they use.

use super::handlers::{
    commands, domains, enroll, events, jobs, nodes, options, pools, quotas, reports, retention,
    server, sites, storage_servers, upkeep,
};
use axum::body::Bytes;
use std::sync::OnceLock;
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

/// The document.
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

/// The document as JSON, made once: whoever asks costs the copy of a pointer.
pub(crate) async fn answer() -> impl axum::response::IntoResponse {
    static MADE: OnceLock<Bytes> = OnceLock::new();
    let made = MADE.get_or_init(|| document().to_json().unwrap_or_default().into());
    ([(axum::http::header::CONTENT_TYPE, "application/json")], made.clone())
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Icecore",
        description = "The API of an Icecore server. Times are RFC 3339 in UTC, sizes are bytes. Every reply that is not a success has the body `Failure`.",
        license(name = "Apache-2.0")
    ),
    paths(
        enroll::make_token, enroll::enroll, enroll::renew, enroll::make_key,
        nodes::nodes, nodes::revoke, nodes::allow_forget, nodes::remove,
        options::options, options::change, options::exchange,
        nodes::limits, nodes::add_limit, nodes::remove_limit,
        domains::domains, domains::remove, domains::place,
        domains::grants, domains::grant, domains::withdraw, domains::snapshots,
        jobs::sessions, jobs::history, jobs::job, jobs::cancel, jobs::suspend, jobs::resume,
        jobs::retry, jobs::priority, jobs::start_policy, jobs::job_for_node,
        events::events, reports::job_log, reports::protection, reports::backups, reports::costs,
        reports::capacity, reports::causes,
        commands::restore, commands::backup, commands::commands, commands::own_commands, commands::update_command,
        retention::snapshots, retention::snapshot, retention::delete, retention::undelete,
        retention::expire, retention::simulate, retention::delete_source, retention::confirm_clock,
        sites::objects, sites::object, sites::put, sites::remove, sites::export, sites::apply,
        storage_servers::make_token, storage_servers::storage_servers, storage_servers::revoke,
        storage_servers::enroll, storage_servers::renew, storage_servers::admit, storage_servers::access,
        storage_servers::forget, storage_servers::labels, storage_servers::heartbeat,
        upkeep::status, upkeep::start, upkeep::move_domain, quotas::quotas,
        pools::pools, pools::add, pools::set_state, pools::remove,
        server::status, server::audit, server::confirm_catalog
    ),
    modifiers(&Security)
)]
struct Document;

/// Who calls: an administrator by a token, a node by its certificate.
struct Security;

impl Modify for Security {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let components = document.components.get_or_insert_default();
        let token = SecurityScheme::Http(Http::new(HttpAuthScheme::Bearer));
        components.add_security_scheme("admin", token);
        let certificate = SecurityScheme::MutualTls {
            description: Some("The certificate from enrollment.".to_owned()),
            extensions: None,
            deprecated: None,
        };
        components.add_security_scheme("node", certificate.clone());
        components.add_security_scheme("storage", certificate);
    }
}

/// The document as the file `docs/openapi.json` has it.
pub fn text() -> String {
    document().to_pretty_json().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn file(name: &str) -> String {
        let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(path).unwrap()
    }

    #[test]
    fn the_document_in_the_repository_is_the_one_that_the_server_gives() {
        let same = file("openapi.json").trim_end() == text();
        assert!(
            same,
            "regenerate it: cargo run -p server-control --example openapi > docs/openapi.json"
        );
    }

    #[test]
    fn the_guide_has_a_row_for_every_call_and_no_other() {
        let document: Value = serde_json::from_str(&text()).unwrap();
        let guide = file("API.md");
        let mut calls = 0;
        for (path, methods) in document["paths"].as_object().unwrap() {
            for (method, call) in methods.as_object().unwrap() {
                let path = path.strip_prefix(api::BASE).unwrap();
                let row = format!("| `{} {path}` |", method.to_uppercase());
                assert!(guide.contains(&row), "docs/API.md lacks: {row}");
                assert!(call["summary"].as_str().is_some(), "{path} says nothing of itself");
                calls += 1;
            }
        }
        let rows = guide.lines().filter(|line| line.starts_with("| `") && line.contains(" /"));
        assert_eq!(rows.count(), calls, "docs/API.md has rows that no call has");
    }

    #[test]
    fn every_type_that_is_named_is_described() {
        let text = text();
        let document: Value = serde_json::from_str(&text).unwrap();
        let schemas = document["components"]["schemas"].as_object().unwrap();
        for part in text.split("#/components/schemas/").skip(1) {
            let name = part.split('"').next().unwrap();
            assert!(schemas.contains_key(name), "{name}");
        }
    }
}
