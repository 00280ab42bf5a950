use std::hash::BuildHasher;

use super::{digest::secret_seed, *};

fn key(call: &Call, scope: Scope) -> KeyBuf {
    KeyRef::new(call, scope).to_owned()
}

#[test]
fn setting_a_name_again_replaces_it_and_leaves_clones_alone() {
    let first = Call::to("one");
    let second = first.clone().target("two");
    assert_eq!((first.name(Name::Target), second.name(Name::Target)), (Some("one"), Some("two")));
    let plain = Call::to("two");
    assert!(KeyRef::new(&second, Scope::TARGET).to_owned().is(&KeyRef::new(&plain, Scope::TARGET)));
}

#[test]
fn of_a_long_name_little_is_kept_and_it_is_still_another_name() {
    for letter in ["a", "\u{e9}", "\u{1f980}"] {
        let name = letter.repeat(10 << 20);
        let (call, same, other) = (Call::to(&name), Call::to(&name), Call::to(&format!("{name}!")));
        let kept = call.name(Name::Target).expect("it is set");
        assert!(kept.len() <= 256 && kept.starts_with(&letter.repeat(50)), "{kept}");
        assert!(key(&call, Scope::TARGET).is(&KeyRef::new(&same, Scope::TARGET)));
        assert!(!key(&call, Scope::TARGET).is(&KeyRef::new(&other, Scope::TARGET)));
        assert!(call.names.expect("names").text.capacity() < 1_024);
    }
    let name = "n".repeat(256);
    assert_eq!(Call::to(&name).name(Name::Target), Some(&*name));
}

#[test]
fn no_name_can_be_taken_for_a_line_or_a_name_beside_it() {
    let shown = |name: &str| key(&Call::to("crm").operation(name), Scope::TARGET | Scope::OPERATION).to_string();
    assert_eq!(shown("openai/gpt-4o:free"), "target=crm operation=openai/gpt-4o:free");
    for hostile in
        ["a\nERROR killed", "a\0b", "\u{202e}b", "a tenant=acme", "\u{1b}[2J", "a=b", "\"", "", "a, tenant b"]
    {
        let line = shown(hostile);
        assert_eq!(line, format!("target=crm operation={hostile:?}"));
        assert!(line.chars().all(|c| c == ' ' || c.is_ascii_graphic()), "{line:?}");
        let call = Call::to("crm").operation(hostile);
        let refused = crate::Rejected::new("semantic_breaker", crate::Refusal::Open, Scope::TARGET, &call).to_string();
        assert!(refused.ends_with(&format!(", operation {hostile:?})")), "{refused}");
    }
}

#[test]
fn a_secret_is_not_kept() {
    let call = Call::new().credential_secret(b"sk-very-secret");
    assert!(!format!("{call:?}").contains("secret"));
    let expected = format!("#{:016x}", secret_seed().hash_one(&b"sk-very-secret"[..]));
    assert_eq!(call.name(Name::Credential), Some(&*expected));
    assert_eq!(call.name(Name::Credential), Call::new().credential_secret(b"sk-very-secret").name(Name::Credential));
}
