//! The OpenAPI document, made from the handlers and the types that they use.

use super::handlers::{
    commands, domains, enroll, events, jobs, nodes, options, pools, quotas, reports, retention,
    server, sites, storage_servers, upkeep,
};
use axum::body::Bytes;
use std::collections::BTreeMap;
use std::sync::OnceLock;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{AllOf, Object, Schema};
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
    modifiers(&Security, &Tagged)
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

/// A tagged enum is described as its variant and, besides, the tag. Of a variant that allows no other fields nothing
/// would satisfy both, so that these are made one object.
struct Tagged;

impl Modify for Tagged {
    fn modify(&self, document: &mut utoipa::openapi::OpenApi) {
        let schemas = &mut document.components.get_or_insert_default().schemas;
        let known = schemas.clone();
        for schema in schemas.values_mut() {
            let RefOr::T(Schema::OneOf(one_of)) = schema else { continue };
            for variant in &mut one_of.items {
                if let RefOr::T(Schema::AllOf(parts)) = variant
                    && let Some(whole) = one_object(parts, &known)
                {
                    *variant = RefOr::T(Schema::Object(whole));
                }
            }
        }
    }
}

/// All fields of `parts`, if each of them is an object.
fn one_object(parts: &AllOf, known: &BTreeMap<String, RefOr<Schema>>) -> Option<Object> {
    let mut whole = Object::new();
    whole.description.clone_from(&parts.description);
    for part in &parts.items {
        let named = match part {
            RefOr::Ref(name) => known.get(name.ref_location.rsplit('/').next()?)?,
            RefOr::T(_) => part,
        };
        let RefOr::T(Schema::Object(object)) = named else { return None };
        whole.properties.extend(object.properties.clone());
        whole.required.extend(object.required.clone());
        whole.additional_properties =
            whole.additional_properties.or(object.additional_properties.clone());
    }
    Some(whole)
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
    /// A part of `allOf` that allows no other fields refuses what the other parts require.
    #[test]
    fn what_is_described_in_parts_can_be_satisfied() {
        let document: Value = serde_json::from_str(&text()).unwrap();
        let schemas = &document["components"]["schemas"];
        let is_closed = |part: &Value| {
            let name = part["$ref"].as_str().and_then(|name| name.rsplit('/').next());
            name.map_or(part, |name| &schemas[name])["additionalProperties"] == false
        };
        let mut open = vec![&document];
        while let Some(value) = open.pop() {
            let parts = value["allOf"].as_array();
            let closed = parts.into_iter().flatten().find(|part| is_closed(part));
            assert!(closed.is_none(), "{value}");
            open.extend(value.as_array().into_iter().flatten());
            open.extend(value.as_object().into_iter().flat_map(|fields| fields.values()));
        }
        let task = &schemas["Task"]["oneOf"][0];
        assert!(task["properties"]["kind"].is_object() && task["properties"]["node"].is_object());
        assert_eq!(task["additionalProperties"], false);
    }
}
