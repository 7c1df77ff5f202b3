//! The OpenAPI document, made from the handlers and the types that they use.

use super::handlers::{domains, enrol, jobs, nodes, orders, server};
use utoipa::openapi::security::{Http, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};

/// The document.
pub fn document() -> utoipa::openapi::OpenApi {
    Document::openapi()
}

#[derive(OpenApi)]
#[openapi(
    info(
        title = "Icecore",
        description = "The API of an Icecore server. Times are seconds since 1970, sizes are bytes. Whatever is no success has the body `Failure`.",
        license(name = "Apache-2.0")
    ),
    paths(
        enrol::make_token, enrol::enrol, enrol::renew, enrol::make_key,
        nodes::nodes, nodes::revoke, nodes::remove,
        nodes::limits, nodes::add_limit, nodes::remove_limit,
        domains::domains, domains::grants, domains::grant, domains::withdraw, domains::snapshots,
        jobs::sessions, jobs::history, jobs::job, jobs::cancel,
        orders::restore, orders::backup, orders::orders, orders::own_orders, orders::order_is,
        server::status, server::audit
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
            description: Some("The certificate that enrolment gave.".to_owned()),
            extensions: None,
            deprecated: None,
        };
        components.add_security_scheme("node", certificate);
    }
}
