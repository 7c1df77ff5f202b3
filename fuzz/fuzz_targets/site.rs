//! A site file: any text is read or refused with places that exist; what is read is written as the same.
#![no_main]

use site::file;

libfuzzer_sys::fuzz_target!(|text: &str| {
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
});
