//! A site file: any text is read or refused with places that exist; what is read is written as the same.

use site::file;

/// Runs the target on one input.
pub fn fuzz(bytes: &[u8]) {
    let Some(text) = crate::arbitrary::<&str>(bytes) else { return };
    match file::read(text) {
        Ok(site) => {
            let written = file::write(&site);
            assert_eq!(file::read(&written).as_ref(), Ok(&site));
        }
        Err(mistakes) => {
            let lines = text.split('\n').count();
            assert!(!mistakes.is_empty());
            assert!(mistakes.iter().all(|mistake| (1..=lines).contains(&mistake.line)));
            assert!(mistakes.iter().all(|mistake| !mistake.fix.is_empty()));
        }
    }
}
