//! Which operations become tools: `include` and `exclude`.

use sentinel_core::catalog::Glob;

/// One entry of `include` or `exclude`.
#[derive(Clone, Debug)]
enum Rule {
    Tag(Glob),
    /// A method in upper case, or any; a pattern of paths.
    Place(Option<String>, Glob),
    Id(Glob),
}

#[derive(Clone, Debug)]
pub(super) struct Selection {
    include: Vec<Rule>,
    exclude: Vec<Rule>,
}

/// What rules look at.
#[derive(Clone, Copy)]
pub(super) struct Candidate<'a> {
    pub(super) method: &'a str,
    pub(super) path: &'a str,
    pub(super) id: &'a str,
    pub(super) tags: &'a [&'a str],
}

impl Selection {
    pub(super) fn new(include: &[String], exclude: &[String]) -> Self {
        let rules = |texts: &[String]| texts.iter().map(|text| Rule::of(text.trim())).collect();
        Self {
            include: rules(include),
            exclude: rules(exclude),
        }
    }

    pub(super) fn takes(&self, candidate: Candidate<'_>) -> bool {
        let any = |rules: &[Rule]| rules.iter().any(|rule| rule.matches(candidate));
        (self.include.is_empty() || any(&self.include)) && !any(&self.exclude)
    }
}

const METHODS: [&str; 8] = [
    "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE",
];

impl Rule {
    fn of(text: &str) -> Self {
        if let Some(tag) = text.strip_prefix("tag:") {
            return Self::Tag(Glob::new(tag));
        }
        if text.starts_with('/') {
            return Self::Place(None, Glob::new(text));
        }
        let (first, rest) = text.split_once(' ').unwrap_or((text, "*"));
        let method = first.to_ascii_uppercase();
        match METHODS.contains(&method.as_str()) {
            true => Self::Place(Some(method), Glob::new(rest.trim())),
            false => Self::Id(Glob::new(text)),
        }
    }

    fn matches(&self, candidate: Candidate<'_>) -> bool {
        match self {
            Self::Tag(tag) => candidate.tags.iter().any(|name| tag.matches(name)),
            Self::Place(method, path) => {
                let same = method
                    .as_ref()
                    .is_none_or(|method| method == candidate.method);
                same && path.matches(candidate.path)
            }
            Self::Id(id) => !candidate.id.is_empty() && id.matches(candidate.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn o_4_operations_are_chosen_by_tag_path_method_and_id() {
        let pet = Candidate {
            method: "GET",
            path: "/pets/{id}",
            id: "getPet",
            tags: &["pets", "v1"],
        };
        let drop = Candidate {
            method: "DELETE",
            path: "/pets/{id}",
            id: "",
            tags: &[],
        };
        for (include, exclude, takes_pet, takes_drop) in [
            (&[][..], &[][..], true, true),
            (&["tag:pets"], &[], true, false),
            (&["tag:*"], &[], true, false),
            (&["/pets/*"], &[], true, true),
            (&["/stores/*"], &[], false, false),
            (&["GET"], &[], true, false),
            (&["get /pets/*"], &[], true, false),
            (&["GET /x"], &[], false, false),
            (&["getPet"], &[], true, false),
            (&["get*", "DELETE"], &[], true, true),
            (&[], &["DELETE"], true, false),
            (&["/pets/*"], &["tag:v1"], false, true),
        ] {
            let own = |texts: &[&str]| texts.iter().map(ToString::to_string).collect::<Vec<_>>();
            let selection = Selection::new(&own(include), &own(exclude));
            assert_eq!(selection.takes(pet), takes_pet, "{include:?} {exclude:?}");
            assert_eq!(selection.takes(drop), takes_drop, "{include:?} {exclude:?}");
        }
    }
}
