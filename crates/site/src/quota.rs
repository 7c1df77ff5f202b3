//! Quotas: how much some domains may store together.

use crate::{Policy, Rate, Site};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// How many bytes the domains that it names, and those of the nodes and groups that it names, may store together.
/// Each domain counts once, whoever leads to it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Quota {
    /// The most that their containers may have.
    pub bytes: Size,
    /// These domains.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub domains: Vec<String>,
    /// The domains to which these nodes back up.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub nodes: Vec<String>,
    /// The same for the members of these groups.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<String>,
}

impl Quota {
    /// Whether it names nothing, and so limits nothing.
    pub fn is_of_nothing(&self) -> bool {
        self.domains.is_empty() && self.nodes.is_empty() && self.groups.is_empty()
    }
}

impl Site {
    /// The nodes whose domains a quota counts, of those that are enrolled.
    pub fn nodes_of_quota(&self, quota: &Quota, enrolled: &BTreeSet<String>) -> BTreeSet<String> {
        let (nodes, groups) = (quota.nodes.clone(), quota.groups.clone());
        self.members(&Policy { nodes, groups, ..Policy::default() }, enrolled)
    }
}

/// Bytes: `50M` are 50 × 1,024 × 1,024.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(pub u64);

/// A text is no number of bytes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is no number of bytes; write one such as \"500G\" or \"2T\"")]
pub struct SizeError(String);

impl FromStr for Size {
    type Err = SizeError;

    fn from_str(text: &str) -> Result<Self, SizeError> {
        let wrong = |_| SizeError(text.chars().take(80).collect());
        text.parse().map(|Rate(bytes)| Self(bytes)).map_err(wrong)
    }
}

impl fmt::Display for Size {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        Rate(self.0).fmt(formatter)
    }
}

impl TryFrom<String> for Size {
    type Error = SizeError;

    fn try_from(text: String) -> Result<Self, SizeError> {
        text.parse()
    }
}

impl From<Size> for String {
    fn from(size: Size) -> Self {
        size.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_they_are_read() {
        let size: Size = "2T".parse().unwrap();
        assert_eq!((size.0, size.to_string().as_str()), (2 << 40, "2T"));
        let error = "2 TiB".parse::<Size>().unwrap_err().to_string();
        assert_eq!(error, "'2 TiB' is no number of bytes; write one such as \"500G\" or \"2T\"");
    }

    #[test]
    fn the_nodes_of_a_quota_are_those_that_it_names_and_the_members_of_its_groups() {
        let mut site = Site::default();
        let all = r#"{"all": true}"#;
        site.groups.insert("all".to_owned(), serde_json::from_str(all).unwrap());
        let enrolled: BTreeSet<String> = ["a", "b"].map(str::to_owned).into();
        let nodes = |body: &str| {
            let quota: Quota = serde_json::from_str(body).unwrap();
            Vec::from_iter(site.nodes_of_quota(&quota, &enrolled))
        };
        assert_eq!(nodes(r#"{"bytes": "1G", "nodes": ["b", "gone"]}"#), ["b"]);
        assert_eq!(nodes(r#"{"bytes": "1G", "groups": ["all"]}"#), ["a", "b"]);
        assert_eq!(nodes(r#"{"bytes": "1G", "domains": ["a"]}"#), [""; 0]);
    }
}
