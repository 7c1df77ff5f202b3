//! The site: objects one by one, or all of them as a file.

use crate::http::answer::{Answer, Asked, At, Body, work};
use crate::http::topics::Topic;
use crate::http::who::Admin;
use crate::retention::Retention;
use crate::sites::Sites;
use api::Failure;
use api::sites::{
    ApplySite, PutObject, RemoveObject, SiteChange, SiteFile, SiteObject, SiteObjects,
};
use axum::extract::State;
use site::Kind;

/// Lists the objects of one kind.
#[utoipa::path(get, path = "/api/v1/objects/{kind}", tag = "site",
    params(("kind" = String, Path, description = "unit, retention, schedule, node, group, policy, hold, upkeep or quota.")),
    security(("admin" = [])),
    responses((status = 200, body = SiteObjects), (status = "4XX", body = Failure)))]
pub(crate) async fn objects(
    State(sites): Topic<Sites>,
    _: Admin,
    At(kind): At<Kind>,
) -> Answer<SiteObjects> {
    work(sites, move |sites| sites.objects(kind)).await
}

/// Shows one object.
#[utoipa::path(get, path = "/api/v1/objects/{kind}/{name}", tag = "site",
    params(("kind" = String, Path, description = "Its kind."),
        ("name" = String, Path, description = "Its name.")), security(("admin" = [])),
    responses((status = 200, body = SiteObject), (status = "4XX", body = Failure)))]
pub(crate) async fn object(
    State(sites): Topic<Sites>,
    _: Admin,
    At((kind, name)): At<(Kind, String)>,
) -> Answer<SiteObject> {
    work(sites, move |sites| sites.object(kind, &name)).await
}

/// Creates an object, or changes the one of the version that the caller has seen.
#[utoipa::path(put, path = "/api/v1/objects/{kind}/{name}", tag = "site", request_body = PutObject,
    params(("kind" = String, Path, description = "Its kind."),
        ("name" = String, Path, description = "Its name.")), security(("admin" = [])),
    responses((status = 200, body = SiteChange), (status = "4XX", body = Failure)))]
pub(crate) async fn put(
    State(retention): Topic<Retention>,
    _: Admin,
    At((kind, name)): At<(Kind, String)>,
    Body(new): Body<PutObject>,
) -> Answer<SiteChange> {
    work(retention, move |retention| {
        retention.change_site(|sites| sites.put(Admin::WHO, (kind, &name), &new))
    })
    .await
}

/// Removes the object of the version that the caller has seen.
#[utoipa::path(delete, path = "/api/v1/objects/{kind}/{name}", tag = "site",
    params(("kind" = String, Path, description = "Its kind."),
        ("name" = String, Path, description = "Its name."), RemoveObject), security(("admin" = [])),
    responses((status = 200, body = SiteChange), (status = "4XX", body = Failure)))]
pub(crate) async fn remove(
    State(retention): Topic<Retention>,
    _: Admin,
    At((kind, name)): At<(Kind, String)>,
    Asked(seen): Asked<RemoveObject>,
) -> Answer<SiteChange> {
    work(retention, move |retention| {
        retention.change_site(|sites| sites.remove(Admin::WHO, (kind, &name), &seen))
    })
    .await
}

/// Shows the whole site as a file.
#[utoipa::path(get, path = "/api/v1/site", tag = "site", security(("admin" = [])),
    responses((status = 200, body = SiteFile), (status = "4XX", body = Failure)))]
pub(crate) async fn export(State(sites): Topic<Sites>, _: Admin) -> Answer<SiteFile> {
    work(sites, |sites| sites.export()).await
}

/// Makes the site what a file says; removes what the file does not have.
#[utoipa::path(post, path = "/api/v1/site", tag = "site", request_body = ApplySite,
    security(("admin" = [])),
    responses((status = 200, body = SiteChange), (status = "4XX", body = Failure)))]
pub(crate) async fn apply(
    State(retention): Topic<Retention>,
    _: Admin,
    Body(file): Body<ApplySite>,
) -> Answer<SiteChange> {
    work(retention, move |retention| retention.change_site(|sites| sites.apply(Admin::WHO, &file)))
        .await
}
