//! The tree of names from the roots that the user names: which directories are only passed through,
//! and where a root begins. The walk must reach a root inside another root, whatever is in between
//! (a mount point, an exclude).

use std::sync::Arc;

/// A root to walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SourceRoot {
    /// Absolute path on this machine. A link as last name is stored as a link.
    pub source: Vec<u8>,
    /// Path in the snapshot; `None`: the same as on this machine.
    pub shown_as: Option<Vec<u8>>,
}

impl SourceRoot {
    /// A root that keeps its path.
    pub fn at(source: &[u8]) -> Self {
        SourceRoot { source: source.to_vec(), shown_as: None }
    }
}

/// What FUSE allows; disk file systems allow 255.
const LONGEST_NAME: usize = 1024;

/// Why a walk cannot start.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WalkError {
    /// Relative, or with `..`, or with a NUL.
    #[error("'{}' is not an absolute path, or contains '..'; write the full path", String::from_utf8_lossy(.0))]
    NotAbsolute(Vec<u8>),
    /// A name that is too long for any file system.
    #[error("'{}' has a name of more than {LONGEST_NAME} bytes", String::from_utf8_lossy(.0))]
    NameTooLong(Vec<u8>),
    /// The system started no thread.
    #[error("cannot start a thread: {0}")]
    NoThread(std::io::ErrorKind),
    /// Two sources for one path of the snapshot.
    #[error("'{}' and '{}' would both be '/{}' in the snapshot; give one of them another path with --as",
        String::from_utf8_lossy(.0), String::from_utf8_lossy(.1), String::from_utf8_lossy(.2))]
    Collision(Vec<u8>, Vec<u8>, Vec<u8>),
}

/// One name on the path to a root.
#[derive(Clone, Debug, Default)]
pub(super) struct PlanNode {
    /// Name in the snapshot.
    pub(super) name: Vec<u8>,
    /// Absolute path on this machine; `None` if nothing corresponds to it.
    pub(super) source: Option<Vec<u8>>,
    /// It is a root: everything below is included.
    pub(super) is_root: bool,
    /// Sorted by name.
    pub(super) children: Vec<Arc<PlanNode>>,
}

impl PlanNode {
    pub(super) fn child(&self, name: &[u8]) -> Option<&Arc<PlanNode>> {
        let found = self.children.binary_search_by(|child| child.name.as_slice().cmp(name)).ok()?;
        Some(&self.children[found])
    }

    fn child_mut(&mut self, name: &[u8]) -> &mut PlanNode {
        let position = match self.children.binary_search_by(|child| child.name.as_slice().cmp(name))
        {
            Ok(found) => found,
            Err(gap) => {
                self.children
                    .insert(gap, Arc::new(PlanNode { name: name.to_vec(), ..PlanNode::default() }));
                gap
            }
        };
        Arc::make_mut(&mut self.children[position])
    }
}

/// The tree of all roots. Its top is the snapshot's own top, with the empty path.
pub(super) fn plan(roots: &[SourceRoot]) -> Result<Arc<PlanNode>, WalkError> {
    let mut top = PlanNode::default();
    // Outer ones first, so that an inner one finds what it lies in.
    let mut named = roots.iter().map(names_of_root).collect::<Result<Vec<_>, _>>()?;
    named.sort_by(|a, b| a.shown.cmp(&b.shown));
    for root in &named {
        insert(&mut top, root)?;
    }
    Ok(Arc::new(top))
}

struct RootNames {
    source: Vec<Vec<u8>>,
    shown: Vec<Vec<u8>>,
    keeps_path: bool,
}

fn names_of_root(root: &SourceRoot) -> Result<RootNames, WalkError> {
    if root.source.first() != Some(&b'/') {
        return Err(WalkError::NotAbsolute(root.source.clone()));
    }
    let source = names_of(&root.source)?;
    let shown = root.shown_as.as_deref().map_or(Ok(source.clone()), names_of)?;
    Ok(RootNames { keeps_path: source == shown, source, shown })
}

fn names_of(path: &[u8]) -> Result<Vec<Vec<u8>>, WalkError> {
    let names = path.split(|byte| *byte == b'/').filter(|name| !matches!(*name, b"" | b"."));
    let names: Vec<_> = names.map(<[u8]>::to_vec).collect();
    if names.iter().any(|name| name == b".." || name.contains(&0)) {
        return Err(WalkError::NotAbsolute(path.to_vec()));
    }
    match names.iter().any(|name| name.len() > LONGEST_NAME) {
        true => Err(WalkError::NameTooLong(path.to_vec())),
        false => Ok(names),
    }
}

fn insert(top: &mut PlanNode, root: &RootNames) -> Result<(), WalkError> {
    let mut node = top;
    let mut outer: Option<Vec<u8>> = None; // source of the root that we are in
    for depth in 0..=root.shown.len() {
        if depth > 0 {
            let name = &root.shown[depth - 1];
            outer = outer.map(|above| below(&above, name));
            node = node.child_mut(name);
        }
        if node.is_root {
            outer = node.source.clone();
        } else if root.keeps_path && outer.is_none() {
            node.source = Some(absolute(&root.source[..depth]));
        } else if outer.is_some() {
            node.source = outer.clone();
        }
    }
    let source = absolute(&root.source);
    match outer {
        Some(other) if other != source => {
            Err(WalkError::Collision(other, source, root.shown.join(&b'/')))
        }
        _ => {
            node.is_root = true;
            node.source = Some(source);
            Ok(())
        }
    }
}

fn absolute(names: &[Vec<u8>]) -> Vec<u8> {
    [b"/".as_slice(), &names.join(&b'/')].concat()
}

fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
    [path, slash, name].concat()
}

/// Directory and name of an absolute path; the top is `.` in itself.
pub(super) fn split_last(path: &[u8]) -> (&[u8], &[u8]) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(_) if path == b"/" => (b"/", b"."),
        Some(0) => (b"/", &path[1..]),
        Some(slash) => (&path[..slash], &path[slash + 1..]),
        None => (b".", path),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mapped(source: &str, shown: &str) -> SourceRoot {
        SourceRoot { source: source.into(), shown_as: Some(shown.into()) }
    }

    #[test]
    fn parents_are_passed_through_and_inner_roots_are_merged() {
        let top =
            plan(&[SourceRoot::at(b"/b/c/d"), SourceRoot::at(b"//b/./c/"), SourceRoot::at(b"/a")])
                .unwrap();
        let names: Vec<_> = top.children.iter().map(|child| child.name.clone()).collect();
        assert_eq!(names, [b"a", b"b"]);
        let parent = top.child(b"b").unwrap();
        assert!(!parent.is_root && !top.is_root);
        assert_eq!(parent.source.as_deref(), Some(&b"/b"[..]));
        let root = parent.child(b"c").unwrap();
        assert!(root.is_root && root.child(b"d").unwrap().is_root);
    }

    #[test]
    fn a_root_shown_elsewhere_has_made_up_parents() {
        let top = plan(&[mapped("/srv/data", "backup/x"), SourceRoot::at(b"/backup/y")]).unwrap();
        let backup = top.child(b"backup").unwrap();
        assert_eq!(backup.source.as_deref(), Some(&b"/backup"[..]));
        assert_eq!(backup.child(b"x").unwrap().source.as_deref(), Some(&b"/srv/data"[..]));
        let alone = plan(&[mapped("/srv/data", "backup/x")]).unwrap();
        assert_eq!(alone.child(b"backup").unwrap().source, None);
    }

    #[test]
    fn what_cannot_be_told_apart_is_refused() {
        let one = [mapped("/a", "x"), mapped("/b", "x")];
        assert!(matches!(plan(&one), Err(WalkError::Collision(..))));
        let inside = [mapped("/a", "x"), mapped("/b", "x/y")];
        assert!(matches!(plan(&inside), Err(WalkError::Collision(..))));
        assert!(plan(&[mapped("/a", "x"), mapped("/a/y", "x/y"), mapped("/a", "z")]).is_ok());
        for path in ["a", "", "/a/../b"] {
            assert!(matches!(
                plan(&[SourceRoot::at(path.as_bytes())]),
                Err(WalkError::NotAbsolute(_))
            ));
        }
        let long = SourceRoot::at(&[b"/".as_slice(), &[b'n'; 5000]].concat());
        assert!(matches!(plan(&[long]), Err(WalkError::NameTooLong(_))));
    }
}
