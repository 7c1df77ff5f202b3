//! How the rules of a policy divide its sources among classes.

use crate::policy::Policy;

/// What of a source is bound to one class.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The class.
    pub class: String,
    /// Patterns of what is in it and, behind a `!`, of what is not: the last one that fits a path, or a directory above
    /// it, counts. Empty for everything.
    pub only: Vec<String>,
}

/// Fits every path.
const EVERYTHING: &str = "/**";

impl Policy {
    /// The parts of its sources: that of `usual`, the class of everything that no rule binds, comes first. Each path
    /// is in exactly one, because all of them go by the same rules.
    pub fn parts(&self, usual: &str) -> Vec<Part> {
        let mut classes = vec![usual];
        for rule in &self.classes {
            if !classes.contains(&rule.class.as_str()) {
                classes.push(&rule.class);
            }
        }
        let is_whole = classes.len() == 1;
        let part = |class: &str| {
            let only = if is_whole { Vec::new() } else { self.only(class, usual) };
            Part { class: class.to_owned(), only }
        };
        classes.into_iter().map(part).collect()
    }

    /// The first rule that fits counts, and the last pattern: so they are turned around.
    fn only(&self, class: &str, usual: &str) -> Vec<String> {
        let mut only: Vec<String> =
            (class == usual).then(|| EVERYTHING.into()).into_iter().collect();
        for rule in self.classes.iter().rev() {
            let is_of_class = rule.class == class;
            let pattern = |one: &String| if is_of_class { one.clone() } else { format!("!{one}") };
            only.extend(rule.include.iter().map(pattern));
        }
        only
    }
}

impl Part {
    /// Whether anything of these paths may be in it, as far as patterns and paths alone can say.
    pub fn may_have(&self, paths: &[String]) -> bool {
        let wanted = self.only.iter().filter(|pattern| !pattern.starts_with('!'));
        let mut wanted = wanted.map(|pattern| fixed(pattern));
        self.only.is_empty() || wanted.any(|fixed| paths.iter().any(|path| may_meet(&fixed, path)))
    }
}

/// The folders with which a pattern begins, as far as they have no wildcards.
fn fixed(pattern: &str) -> Vec<&str> {
    let parts = pattern.trim_matches('/').split('/');
    parts.take_while(|part| !part.contains(['*', '?', '[', '\\'])).collect()
}

/// One of the two leads to the other. Of a path below a home directory only its node knows where it is.
fn may_meet(fixed: &[&str], path: &str) -> bool {
    if path.starts_with('~') {
        return true;
    }
    let parts = path.split('/').filter(|part| !part.is_empty());
    fixed.iter().zip(parts).all(|(fixed, part)| *fixed == part)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ClassRule;

    fn policy(rules: &[(&[&str], &str)]) -> Policy {
        let rule = |(include, class): &(&[&str], &str)| ClassRule {
            include: include.iter().map(|it| (*it).to_owned()).collect(),
            class: (*class).to_owned(),
        };
        Policy { classes: rules.iter().map(rule).collect(), ..Policy::default() }
    }

    #[test]
    fn without_rules_there_is_one_part_with_everything() {
        for policy in [policy(&[]), policy(&[(&["/a"], "long")])] {
            assert_eq!(policy.parts("long"), [Part { class: "long".into(), only: vec![] }]);
        }
    }

    #[test]
    fn earlier_rules_stand_last_and_say_no_in_the_parts_of_other_classes() {
        let policy =
            policy(&[(&["/var/log/keep/**"], "long"), (&["/var/log/**", "/tmp/**"], "short")]);
        let parts = policy.parts("long");
        let shown: Vec<_> = parts.iter().map(|part| (&*part.class, part.only.join(" "))).collect();
        let long = "/** !/var/log/** !/tmp/** /var/log/keep/**".to_owned();
        let short = "/var/log/** /tmp/** !/var/log/keep/**".to_owned();
        assert_eq!(shown, [("long", long), ("short", short)]);
    }

    #[test]
    fn a_part_that_no_path_of_a_source_can_reach_is_known() {
        let parts = policy(&[(&["/var/log/*.gz", "/srv/*/tmp/**"], "short")]).parts("long");
        for (path, may) in [
            ("/var", true),
            ("/", true),
            ("/var/log/x", true),
            ("/srv", true),
            ("/srv/a/b", true),
            ("~/work", true),
            ("/etc", false),
            ("/var/lib", false),
        ] {
            assert_eq!(parts[1].may_have(&[path.to_owned()]), may, "{path}");
            assert!(parts[0].may_have(&[path.to_owned()]));
        }
    }
}
