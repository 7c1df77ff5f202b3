//! The database of a catalog in PostgreSQL.

use crate::failed;
use std::fs;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use testkit::postgres::Server;

/// Starts one for the server whose files will be in `data`, if it is to have one.
pub(super) fn start(is_wanted: bool, data: &Path) -> Result<Option<Server>, String> {
    if !is_wanted {
        return Ok(None);
    }
    let database = Server::start("site", &[]);
    let reached = database.database("icecore");
    let make = || {
        fs::DirBuilder::new().recursive(true).mode(0o700).create(data)?;
        let file = data.join("catalog");
        fs::write(&file, format!("{reached}\n"))?;
        fs::set_permissions(file, fs::Permissions::from_mode(0o600))
    };
    make().map_err(failed("name the database"))?;
    Ok(Some(database))
}
