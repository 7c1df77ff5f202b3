//! The site as the catalog has it.

use crate::{Error, Result};
use api::sites::SiteObject;
use catalog::objects::Objects;
use site::{Kind, Site};
use std::collections::BTreeMap;

/// The site at one moment.
pub(crate) struct Stored {
    /// How often it was changed.
    pub(crate) version: u64,
    pub(crate) site: Site,
    written: BTreeMap<(Kind, String), Written>,
}

/// When an object was written.
#[derive(Clone, Copy)]
struct Written {
    version: u64,
    changed: i64,
}

impl Stored {
    /// The objects of the catalog.
    ///
    /// # Errors
    /// [`Error::Object`] for one that this program does not understand.
    pub(crate) fn of(objects: Objects) -> Result<Self> {
        let (mut site, mut written) = (Site::default(), BTreeMap::new());
        for object in objects.objects {
            let bad =
                |why: String| Error::Object(format!("{} {}: {why}", object.kind, object.name));
            let kind: Kind =
                object.kind.parse().map_err(|error: site::KindError| bad(error.to_string()))?;
            site.set(kind, &object.name, &object.body).map_err(|error| bad(error.to_string()))?;
            let when = Written { version: object.version, changed: object.changed };
            written.insert((kind, object.name), when);
        }
        Ok(Self { version: objects.version, site, written })
    }

    /// One object with its version.
    pub(super) fn object(&self, kind: Kind, name: &str) -> Option<SiteObject> {
        let Written { version, changed } = *self.written.get(&(kind, name.to_owned()))?;
        let body = self.site.body(kind, name)?;
        Some(SiteObject { kind: kind.to_string(), name: name.to_owned(), version, changed, body })
    }

    /// The object is still as the caller has seen it: of this version, or not there.
    pub(super) fn is_at(&self, kind: Kind, name: &str, seen: Option<u64>) -> Result<()> {
        let found = self.written.get(&(kind, name.to_owned())).map(|written| written.version);
        match (found, seen) {
            (Some(found), Some(expected)) if found != expected => {
                let what = format!("the {kind} '{name}'");
                let show = format!("icecore server {kind} show {name}");
                Err(Error::ChangedSince { what, expected, found, show })
            }
            (Some(_), None) => Err(declared::exists(kind, name)),
            (None, Some(_)) => Err(declared::missing(kind, name)),
            _ => Ok(()),
        }
    }

    /// The whole site is still as the caller has seen it.
    pub(super) fn is_whole_at(&self, seen: Option<u64>) -> Result<()> {
        match seen {
            Some(expected) if expected != self.version => Err(Error::ChangedSince {
                what: "the site".to_owned(),
                expected,
                found: self.version,
                show: "icecore server export".to_owned(),
            }),
            _ => Ok(()),
        }
    }
}

/// Errors about objects by name. That a node is declared is one thing, that it is enrolled another.
pub(super) mod declared {
    use super::{Error, Kind};

    /// What an object of this kind is called in errors.
    const fn what(kind: Kind) -> &'static str {
        match kind {
            Kind::Unit => "declared unit",
            Kind::Retention => "declared retention",
            Kind::Schedule => "declared schedule",
            Kind::Group => "declared group",
            Kind::Policy => "declared policy",
            Kind::Node => "declared node",
            Kind::Hold => "declared hold",
            Kind::Upkeep => "declared upkeep",
            Kind::Quota => "declared quota",
        }
    }

    /// It does not exist.
    pub(in crate::sites) fn missing(kind: Kind, name: &str) -> Error {
        let (what, name) = (what(kind), name.chars().take(site::NAME_BYTES_MAX).collect());
        catalog::Error::Missing { what, name }.into()
    }

    /// It exists already.
    pub(in crate::sites) fn exists(kind: Kind, name: &str) -> Error {
        catalog::Error::Exists { what: what(kind), name: name.to_owned() }.into()
    }
}
