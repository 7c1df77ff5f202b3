//! The file `config`: the settings of a repository. `config.copy` holds the same.

use crate::duplicated_file::DuplicatedFile;
use crate::storage::Storage;
use crate::{Error, Result};
pub use store::Config;

/// Its two names.
pub const NAMES: [&str; 2] = ["config", "config.copy"];
const FILES: DuplicatedFile = DuplicatedFile {
    name: NAMES[0],
    copy: NAMES[1],
    bytes_max: Config::BYTES,
    is_good: |bytes| Config::decode(bytes).map(drop),
};

/// Reads the config, or its copy when it is lost or damaged.
pub fn read(storage: &dyn Storage) -> Result<Config> {
    let missing = || Error::NoRepository { location: storage.describe() };
    let bytes = FILES.read(storage)?.ok_or_else(missing)?;
    let config = Config::decode(&bytes).map_err(|reason| Error::damaged(NAMES[0], reason))?;
    match config.unknown_features() {
        Some(features) => Err(Error::UnknownFeatures(features)),
        None => Ok(config),
    }
}

/// Whether there is a config.
pub fn exists(storage: &dyn Storage) -> Result<bool> {
    FILES.exists(storage)
}

/// Durably writes the config, twice.
pub fn write(config: &Config, storage: &dyn Storage) -> Result<()> {
    Ok(FILES.write(storage, &config.encode())?)
}

/// Durably writes the config as the last step of `init`. When that fails, neither file stays: the user runs `init`
/// again, perhaps with another password.
pub(crate) fn write_first(config: &Config, storage: &dyn Storage) -> Result<()> {
    match FILES.write_new(storage, &config.encode()) {
        Ok(()) => Ok(()),
        // What is there belongs to somebody else, who was faster.
        Err(error) if error.already_exists() => Err(Error::Exists { location: storage.describe() }),
        Err(error) => {
            FILES.remove(storage);
            Err(error.into())
        }
    }
}

/// What is wrong with each of the two files: name and reason.
pub fn problems(storage: &dyn Storage) -> Result<Vec<(&'static str, String)>> {
    FILES.problems(storage)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::local::LocalStorage;
    use ids::RepositoryId;

    fn config() -> Config {
        Config::new(RepositoryId([1; 16]), [6; 32], 2, 1, [3, 4, 5])
    }

    #[test]
    fn a_config_that_is_lost_or_damaged_is_read_from_its_copy() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::open(folder.path()).unwrap();
        assert!(matches!(read(&storage), Err(Error::NoRepository { .. })));
        write(&config(), &storage).unwrap();
        for name in NAMES {
            let (path, good) = (folder.path().join(name), config().encode());
            std::fs::write(&path, &good[1..]).unwrap();
            assert_eq!(read(&storage).unwrap(), config());
            assert_eq!(problems(&storage).unwrap()[0].0, name);
            std::fs::remove_file(&path).unwrap();
            assert_eq!(read(&storage).unwrap(), config());
            std::fs::write(&path, &good).unwrap();
            assert!(problems(&storage).unwrap().is_empty());
        }
    }
}
