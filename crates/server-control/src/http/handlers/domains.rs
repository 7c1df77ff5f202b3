//! Domains, grants, snapshots.

use crate::http::answer::{Answer, Asked, At, Body, work};
use crate::http::topics::Topic;
use crate::http::who::Admin;
use crate::placing::Placing;
use crate::{domains, grants};
use api::domains::{DomainRemoval, Domains, Grant, Grants, NewPlace, PlacedDomain, Snapshots};
use api::status::Done;
use api::{Failure, Name};
use axum::extract::State;
use serde::Deserialize;

/// Lists all domains.
#[utoipa::path(get, path = "/api/v1/domains", tag = "domains", security(("admin" = [])),
    responses((status = 200, body = Domains), (status = "4XX", body = Failure)))]
pub(crate) async fn domains(State(domains): Topic<domains::Domains>, _: Admin) -> Answer<Domains> {
    work(domains, |domains| domains.all()).await
}

/// Removes a domain whose repository was deleted for good, with all that is known of it.
#[utoipa::path(delete, path = "/api/v1/domains/{domain}", tag = "domains",
    params(("domain" = Name, Path, description = "The domain."), DomainRemoval),
    security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn remove(
    State(domains): Topic<domains::Domains>,
    _: Admin,
    At(domain): At<Name>,
    Asked(DomainRemoval { lost }): Asked<DomainRemoval>,
) -> Answer<Done> {
    work(domains, move |domains| domains.remove(Admin::WHO, &domain, lost).map(|()| Done {})).await
}

/// Says that a domain lies elsewhere from now on: on another storage server, or on the control server. Its repository
/// was copied there before. Refused while a job uses the domain, or when something is missing there.
#[utoipa::path(post, path = "/api/v1/domains/{domain}/place", tag = "domains",
    params(("domain" = Name, Path, description = "The domain.")), request_body = NewPlace,
    security(("admin" = [])),
    responses((status = 200, body = PlacedDomain), (status = "4XX", body = Failure)))]
pub(crate) async fn place(
    State(placing): Topic<Placing>,
    _: Admin,
    At(domain): At<Name>,
    Body(wanted): Body<NewPlace>,
) -> Answer<PlacedDomain> {
    work(placing, move |placing| placing.place(Admin::WHO, &domain, &wanted)).await
}

/// Lists all grants.
#[utoipa::path(get, path = "/api/v1/grants", tag = "domains", security(("admin" = [])),
    responses((status = 200, body = Grants), (status = "4XX", body = Failure)))]
pub(crate) async fn grants(State(grants): Topic<grants::Grants>, _: Admin) -> Answer<Grants> {
    work(grants, |grants| grants.all()).await
}

/// Grants a node access to read a domain that is not its own.
#[utoipa::path(post, path = "/api/v1/grants", tag = "domains", request_body = Grant,
    security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn grant(
    State(grants): Topic<grants::Grants>,
    _: Admin,
    Body(new): Body<Grant>,
) -> Answer<Done> {
    work(grants, move |grants| grants.grant(Admin::WHO, &new).map(|()| Done {})).await
}

/// Withdraws a grant, with the keys that were issued for it.
#[utoipa::path(delete, path = "/api/v1/grants/{node}/{domain}", tag = "domains",
    params(("node" = Name, Path, description = "The node."),
        ("domain" = Name, Path, description = "The domain.")), security(("admin" = [])),
    responses((status = 200, body = Done), (status = "4XX", body = Failure)))]
pub(crate) async fn withdraw(
    State(grants): Topic<grants::Grants>,
    _: Admin,
    At((node, domain)): At<(Name, Name)>,
) -> Answer<Done> {
    work(grants, move |grants| grants.withdraw(Admin::WHO, &node, &domain).map(|()| Done {})).await
}

/// Filter for snapshots.
#[derive(Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub(crate) struct OfDomain {
    /// The domain.
    domain: Name,
}

/// Lists the snapshots of a domain: their clear parts.
#[utoipa::path(get, path = "/api/v1/snapshots", tag = "domains", params(OfDomain),
    security(("admin" = [])),
    responses((status = 200, body = Snapshots), (status = "4XX", body = Failure)))]
pub(crate) async fn snapshots(
    State(domains): Topic<domains::Domains>,
    _: Admin,
    Asked(of): Asked<OfDomain>,
) -> Answer<Snapshots> {
    work(domains, move |domains| domains.snapshots(&of.domain)).await
}
