use tower_layer::Layer;

use super::*;
use crate::{
    bulkhead::BulkheadConfig,
    call::Call,
    coverage::{Coverage, Mode, Part},
    retry::RetryPolicy,
    semantic_breaker::TripCard,
};

#[test]
fn the_stack_is_in_the_recommended_order() {
    let stack = LlmStack::new(LlmStackConfig::default());
    let coverage = Coverage::of(&stack);
    assert_eq!(coverage.mistakes(), Vec::<&crate::coverage::Mistake>::new());
    let parts: Vec<Part> = coverage.layers().iter().map(|(part, _)| *part).collect();
    assert_eq!(parts.first(), Some(&Part::Identify));
    assert_eq!(parts.last(), Some(&Part::Provider));
    assert!(coverage.layers().iter().all(|(_, mode)| *mode == Mode::Enforcing), "{coverage}");
}

#[test]
fn a_part_that_is_off_is_not_there() {
    let config = LlmStackConfig::default().retry(Setting::Off).bulkhead(Setting::Off);
    let stack = LlmStack::try_new(config).expect("valid");
    let coverage = stack.handle().coverage().clone();
    assert!(!coverage.guards(Part::Retry) && !coverage.guards(Part::Bulkhead));
    assert!(coverage.guards(Part::SemanticBreaker));
    assert!(stack.handle().bulkhead().is_none());
}

#[test]
fn a_stack_says_which_part_has_an_impossible_value() {
    let error = LlmStack::try_new(LlmStackConfig::default().retry(RetryPolicy::default().max_attempts(0)));
    assert_eq!(error.err().map(|error| error.field().to_owned()).as_deref(), Some("retry.max_attempts"));
    let breaker = toml::from_str::<LlmStackConfig>("breaker = { failures = { count = 0 } }").expect("well-formed");
    assert_eq!(
        breaker.validate().err().map(|error| error.field().to_owned()).as_deref(),
        Some("breaker.failures.count")
    );
}

#[test]
fn a_misspelt_setting_is_named() {
    let error = toml::from_str::<LlmStackConfig>("[retry]\nmax_attempt = 2").expect_err("no such field");
    assert!(error.to_string().contains("max_attempt"), "{error}");
    let error = toml::from_str::<LlmStackConfig>("retry = 'perhaps'").expect_err("no such word");
    assert!(error.to_string().contains("perhaps"), "{error}");
}

#[test]
fn a_configuration_survives_a_round_trip() {
    let config = LlmStackConfig::default().bulkhead(Setting::Off).breaker(TripCard::off());
    let text = toml::to_string(&config).expect("can be written");
    assert_eq!(toml::from_str::<LlmStackConfig>(&text), Ok(config));
}

#[test]
fn an_update_changes_all_clones_or_nothing() {
    let stack = LlmStack::new(LlmStackConfig::default());
    let (handle, _service) = (stack.clone().handle(), stack.layer(crate::coverage::Probe::default()));
    let tighter = LlmStackConfig::default().bulkhead(BulkheadConfig::default().max_concurrent(1));
    handle.update(&tighter).expect("valid");
    assert_eq!(stack.handle().bulkhead().map(|bulkhead| bulkhead.config().max_concurrent), Some(1));
    let refused = handle.update(&LlmStackConfig::default().breaker(Setting::Off));
    assert_eq!(refused.err().map(|error| error.field().to_owned()).as_deref(), Some("breaker"));
    assert_eq!(stack.handle().bulkhead().map(|bulkhead| bulkhead.config().max_concurrent), Some(1));
    assert_eq!(handle.bulkhead().map(|it| it.occupancy(&Call::new()).in_flight), Some(0));
}
