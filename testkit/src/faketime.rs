//! Programs that see another time.

use std::fs;
use std::path::Path;

/// Where the library keeps two objects for each process, which one that is killed leaves there.
const SHARED: &str = "/dev/shm";

/// The library that shows a program another time, where it is installed.
///
/// It ends a process that has the number of one that was killed before: what that one left is removed.
pub fn faketime() -> Option<&'static str> {
    let libraries = [
        "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
        "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1",
    ];
    remove_left(Path::new(SHARED));
    libraries.into_iter().find(|library| fs::exists(library).unwrap_or(false))
}

fn remove_left(folder: &Path) {
    for object in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = object.file_name();
        let name = name.to_string_lossy();
        let of_process = ["faketime_shm_", "sem.faketime_sem_"]
            .iter()
            .find_map(|begin| name.strip_prefix(begin));
        let is_gone = |process: &str| !fs::exists(Path::new("/proc").join(process)).unwrap_or(true);
        if of_process.is_some_and(is_gone) {
            let _ = fs::remove_file(object.path()); // another test may have removed it
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_processes_that_are_gone_have_left_is_removed() {
        let own = std::process::id();
        let folder = std::env::temp_dir().join(format!("icecore-faketime-{own}"));
        fs::create_dir(&folder).unwrap();
        // No process has such a number: the kernel gives none above 4,194,304.
        let names = ["faketime_shm_4194305", "sem.faketime_sem_4194305", "other_4194305"]
            .map(str::to_owned)
            .into_iter()
            .chain([format!("faketime_shm_{own}"), format!("sem.faketime_sem_{own}")]);
        names.for_each(|name| fs::write(folder.join(name), "").unwrap());
        remove_left(&folder);
        let mut left: Vec<_> = fs::read_dir(&folder)
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        fs::remove_dir_all(&folder).unwrap();
        left.sort();
        let kept = [
            format!("faketime_shm_{own}"),
            "other_4194305".to_owned(),
            format!("sem.faketime_sem_{own}"),
        ];
        assert_eq!(left, kept);
    }
}
