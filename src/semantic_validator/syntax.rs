//! Code in an answer has to parse.

use tree_sitter::{Language, ParseOptions, Parser};

use super::{
    Answered, Validate,
    text::{broken, fences},
};
use crate::violation::Violations;

/// The code in the text's fences parses, by the language that each fence names: Rust, Python, JavaScript, TypeScript,
/// JSON, SQL, Bash. Other languages pass, and so does a block that is longer than 256 KiB or takes too long.
#[derive(Debug, Clone, Copy, Default)]
pub struct Parses;

/// A longer block is not parsed.
const LONGEST: usize = 256 << 10;
/// How often a parse reports how far it came, before it is given up. One report comes about every hundred operations.
const PATIENCE: u32 = 20_000;

impl Validate for Parses {
    fn validate(&self, answer: &Answered<'_>) -> Result<(), Violations> {
        fences(answer.text, |language, code| match parses(language, code) {
            Some((name, false)) => Err(broken("syntax", format!("The {name} code in the answer must parse"))),
            _ => Ok(()),
        })
        .map(drop)
    }
}

/// Whether `code` parses, with the name of its language; `None` where nobody can tell.
fn parses(language: &str, code: &str) -> Option<(&'static str, bool)> {
    let (name, grammar) = grammar(language)?;
    if code.len() > LONGEST {
        return None;
    }
    let mut parser = Parser::new();
    parser.set_language(&grammar).ok()?;
    let mut reports = 0;
    let mut go_on = |_: &tree_sitter::ParseState| {
        reports += 1;
        if reports > PATIENCE { std::ops::ControlFlow::Break(()) } else { std::ops::ControlFlow::Continue(()) }
    };
    let bytes = code.as_bytes();
    let mut read = |at: usize, _| bytes.get(at..).unwrap_or_default();
    let options = ParseOptions::new().progress_callback(&mut go_on);
    let tree = parser.parse_with_options(&mut read, None, Some(options))?;
    Some((name, !tree.root_node().has_error()))
}

fn grammar(language: &str) -> Option<(&'static str, Language)> {
    Some(match language.to_ascii_lowercase().as_str() {
        "rust" | "rs" => ("Rust", tree_sitter_rust::LANGUAGE.into()),
        "python" | "py" | "python3" => ("Python", tree_sitter_python::LANGUAGE.into()),
        "javascript" | "js" | "jsx" | "mjs" => ("JavaScript", tree_sitter_javascript::LANGUAGE.into()),
        "typescript" | "ts" => ("TypeScript", tree_sitter_typescript::LANGUAGE_TYPESCRIPT.into()),
        "tsx" => ("TypeScript", tree_sitter_typescript::LANGUAGE_TSX.into()),
        "json" => ("JSON", tree_sitter_json::LANGUAGE.into()),
        "sql" => ("SQL", tree_sitter_sequel::LANGUAGE.into()),
        "bash" | "sh" | "shell" => ("Bash", tree_sitter_bash::LANGUAGE.into()),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_parses_by_the_language_that_it_names() {
        for (language, good, bad) in [
            ("rust", "fn main() { let x = 1; }", "fn main() { let x = ; }"),
            ("Python", "def f(x):\n    return x + 1\n", "def f(x:\n    return\n"),
            ("js", "const f = async () => { await g(); };", "const = 1;"),
            ("ts", "interface A { b: string }", "interface { b string"),
            ("tsx", "const a = <B c={1} />;", "const a = <B c={1};"),
            ("json", "{\"a\": [1, 2]}", "{\"a\": [1, 2}"),
            ("sql", "SELECT a FROM b WHERE c = 1;", "SELEC a FRM b WHRE;"),
            ("bash", "for f in *; do echo \"$f\"; done", "for f in *; do echo"),
        ] {
            assert_eq!(parses(language, good).map(|(_, parses)| parses), Some(true), "{language}");
            assert_eq!(parses(language, bad).map(|(_, parses)| parses), Some(false), "{language}");
        }
        assert_eq!(parses("brainfuck", "]["), None);
    }

    #[test]
    fn hostile_code_is_given_up_in_good_time() {
        for code in ["(".repeat(LONGEST), "[".repeat(LONGEST), "a ".repeat(LONGEST / 2), "\0".repeat(LONGEST)] {
            for language in ["rust", "python", "js", "ts", "json", "sql", "bash"] {
                let _ = parses(language, &code[..20_000]);
            }
            assert_eq!(parses("rust", &format!("{code}{code}")), None);
        }
    }
}
