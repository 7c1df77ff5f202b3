//! Where a repository lies in an object storage: `s3://bucket/prefix`.

use std::fmt;

const SCHEME: &str = "s3://";

/// A bucket, and what the names of all objects of the repository begin with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Location {
    /// Name of the bucket.
    pub bucket: String,
    /// Without a slash at either end; perhaps empty.
    pub prefix: String,
}

impl Location {
    /// Reads `text`; `None` when it is no address of a bucket at all.
    ///
    /// # Errors
    /// What is wrong with an address that begins with `s3://`.
    pub fn parse(text: &str) -> Option<Result<Self, &'static str>> {
        let rest = text.strip_prefix(SCHEME)?;
        let (bucket, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        let prefix = prefix.trim_matches('/');
        let is_name = |byte: u8| byte.is_ascii_alphanumeric() || b".-_".contains(&byte);
        if bucket.is_empty() || !bucket.bytes().all(is_name) {
            return Some(Err("it names no bucket"));
        }
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b".-_/=+@".contains(&byte);
        let is_part = |part: &str| !matches!(part, "" | "." | "..");
        let is_good = prefix.bytes().all(is_plain) && prefix.split('/').all(is_part);
        if !prefix.is_empty() && !is_good {
            return Some(Err(
                "its prefix has characters other than letters, digits and . - _ = + @ /",
            ));
        }
        Some(Ok(Self { bucket: bucket.to_owned(), prefix: prefix.to_owned() }))
    }

    /// The prefixes in which this one lies, the longest first; the last is empty.
    pub fn ancestors(&self) -> impl Iterator<Item = Self> {
        let shorter = |of: &String| {
            let above =
                |prefix: &str| prefix.rsplit_once('/').map_or("", |(above, _)| above).into();
            (!of.is_empty()).then(|| above(of))
        };
        let prefixes = std::iter::successors(shorter(&self.prefix), shorter);
        prefixes.map(|prefix| Self { bucket: self.bucket.clone(), prefix })
    }
}

impl fmt::Display for Location {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        write!(f, "{SCHEME}{}{slash}{}", self.bucket, self.prefix)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_a_bucket_and_a_prefix() {
        for (text, bucket, prefix) in [
            ("s3://b", "b", ""),
            ("s3://b/", "b", ""),
            ("s3://my.bucket-1/a/b/", "my.bucket-1", "a/b"),
        ] {
            let location = Location::parse(text).unwrap().unwrap();
            assert_eq!((&*location.bucket, &*location.prefix), (bucket, prefix), "{text}");
            assert_eq!(Location::parse(&location.to_string()), Some(Ok(location)));
        }
    }

    #[test]
    fn a_prefix_lies_in_each_that_it_begins_with() {
        let above = |text: &str| -> Vec<_> {
            let location = Location::parse(text).unwrap().unwrap();
            location.ancestors().map(|above| above.to_string()).collect()
        };
        assert_eq!(above("s3://b/a/b/c"), ["s3://b/a/b", "s3://b/a", "s3://b"]);
        assert_eq!(above("s3://b/a"), ["s3://b"]);
        assert!(above("s3://b").is_empty());
    }

    #[test]
    fn what_is_no_address_is_left_to_others_and_what_is_half_of_one_is_an_error() {
        for text in ["/mnt/backup", "s3:bucket/prefix", "backup", "S3://b"] {
            assert_eq!(Location::parse(text), None, "{text}");
        }
        for text in [
            "s3://",
            "s3:///prefix",
            "s3://b/../c",
            "s3://b/a//b",
            "s3://b/a b",
            "s3://key:secret@b",
        ] {
            assert!(Location::parse(text).unwrap().is_err(), "{text}");
        }
    }
}
