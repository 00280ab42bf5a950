//! The names that somebody may have meant.

/// Of `names`, those that are near to `wrong`, the nearest first, at most three.
pub(super) fn near<'a>(wrong: &str, names: impl Iterator<Item = &'a str>) -> Vec<&'a str> {
    /// How alike two names must be.
    const ALIKE: f64 = 0.7;
    let wrong = plain(wrong.get(..256).unwrap_or(wrong));
    if wrong.len() > 512 {
        return Vec::new();
    }
    let alike = |name: &str| {
        let name = plain(name);
        let part = name.len().min(wrong.len()) >= 3 && (name.contains(&wrong) || wrong.contains(&name));
        strsim::normalized_damerau_levenshtein(&name, &wrong).max(if part { ALIKE } else { 0.0 })
    };
    let mut found: Vec<(f64, &str)> =
        names.map(|name| (alike(name), name)).filter(|(alike, _)| *alike >= ALIKE).collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(b.1)));
    found.into_iter().take(3).map(|(_, name)| name).collect()
}

/// A name as people take it for the same.
fn plain(name: &str) -> String {
    name.chars().filter(|c| !matches!(c, '_' | '-' | '.' | ' ' | '/' | ':')).flat_map(char::to_lowercase).collect()
}
