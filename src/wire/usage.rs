//! Reads token counts in the words of every protocol.

use super::json::{self, Obj, Raw};
use crate::verdict::Usage;

json::object! {
    Counts {
        prompt_tokens: Raw<'a> = "prompt_tokens",
        input_tokens: Raw<'a> = "input_tokens",
        completion_tokens: Raw<'a> = "completion_tokens",
        output_tokens: Raw<'a> = "output_tokens",
        total_tokens: Raw<'a> = "total_tokens",
        prompt_tokens_details: Raw<'a> = "prompt_tokens_details",
        input_tokens_details: Raw<'a> = "input_tokens_details",
        completion_tokens_details: Raw<'a> = "completion_tokens_details",
        output_tokens_details: Raw<'a> = "output_tokens_details",
        cache_read_input_tokens: Raw<'a> = "cache_read_input_tokens",
        cache_creation_input_tokens: Raw<'a> = "cache_creation_input_tokens",
        prompt_cache_hit_tokens: Raw<'a> = "prompt_cache_hit_tokens",
        cached_tokens: Raw<'a> = "cached_tokens",
    }
}

json::object! {
    Details {
        cached_tokens: Raw<'a> = "cached_tokens",
        cache_write_tokens: Raw<'a> = "cache_write_tokens",
        reasoning_tokens: Raw<'a> = "reasoning_tokens",
        thinking_tokens: Raw<'a> = "thinking_tokens",
    }
}

/// What a protocol's `input_tokens` contain.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Habit {
    OpenAi,
    Anthropic,
}

/// Sets what is stated, and leaves the rest as it was: a later statement counts, none is ever added.
pub(super) fn state(usage: &mut Option<Usage>, stated: Raw<'_>, habit: Habit) {
    let Some(counts) = json::inner::<Counts<'_>>(stated) else { return };
    let input = json::inner::<Details<'_>>(counts.prompt_tokens_details.or(counts.input_tokens_details));
    let output = json::inner::<Details<'_>>(counts.completion_tokens_details.or(counts.output_tokens_details));
    let count = |raws: &[Raw<'_>]| raws.iter().find_map(|raw| json::count(*raw));
    let cached = input.as_ref().and_then(|details| json::count(details.cached_tokens));
    let written = input.as_ref().and_then(|details| json::count(details.cache_write_tokens));
    let stated = Usage {
        input_tokens: count(&[counts.prompt_tokens, counts.input_tokens]),
        output_tokens: count(&[counts.completion_tokens, counts.output_tokens]),
        total_tokens: json::count(counts.total_tokens),
        cached_input_tokens: cached
            .or_else(|| count(&[counts.cache_read_input_tokens, counts.prompt_cache_hit_tokens, counts.cached_tokens])),
        cache_write_input_tokens: written.or_else(|| json::count(counts.cache_creation_input_tokens)),
        reasoning_tokens: output.and_then(|details| count(&[details.reasoning_tokens, details.thinking_tokens])),
        ..Usage::default()
    };
    let Some(known) = merge(usage, stated) else { return };
    // Anthropic's names inside the chat protocol, and nothing else about the cache: Anthropic's habit too.
    let foreign = input.is_none() && json::count(counts.cache_read_input_tokens).is_some();
    known.input_includes_cached = habit == Habit::OpenAi && !foreign && includes_cached(known);
    known.output_includes_reasoning = includes_reasoning(known);
}

/// Sets what is stated: nothing where that is nothing.
fn merge(usage: &mut Option<Usage>, stated: Usage) -> Option<&mut Usage> {
    if stated == Usage::default() {
        return None;
    }
    let known = usage.get_or_insert_default();
    known.input_tokens = stated.input_tokens.or(known.input_tokens);
    known.output_tokens = stated.output_tokens.or(known.output_tokens);
    known.total_tokens = stated.total_tokens.or(known.total_tokens);
    known.cached_input_tokens = stated.cached_input_tokens.or(known.cached_input_tokens);
    known.cache_write_input_tokens = stated.cache_write_input_tokens.or(known.cache_write_input_tokens);
    known.reasoning_tokens = stated.reasoning_tokens.or(known.reasoning_tokens);
    Some(known)
}

json::object! {
    GeminiCounts {
        prompt: Raw<'a> = "promptTokenCount",
        candidates: Raw<'a> = "candidatesTokenCount",
        total: Raw<'a> = "totalTokenCount",
        cached: Raw<'a> = "cachedContentTokenCount",
        thoughts: Raw<'a> = "thoughtsTokenCount",
    }
}

/// Gemini counts from the beginning in every chunk, so the last one stands. Thoughts come on top of the candidates.
pub(super) fn state_gemini(usage: &mut Option<Usage>, stated: Raw<'_>) {
    let Some(counts) = json::inner::<GeminiCounts<'_>>(stated) else { return };
    let stated = Usage {
        input_tokens: json::count(counts.prompt),
        output_tokens: json::count(counts.candidates),
        total_tokens: json::count(counts.total),
        cached_input_tokens: json::count(counts.cached),
        reasoning_tokens: json::count(counts.thoughts),
        ..Usage::default()
    };
    if let Some(known) = merge(usage, stated) {
        known.input_includes_cached = true;
        known.output_includes_reasoning = false;
    }
}

json::object! {
    CohereUsage {
        tokens: Obj<CohereCounts<'a>> = "tokens",
        billed: Obj<CohereCounts<'a>> = "billed_units",
        cached: Raw<'a> = "cached_tokens",
    }
}

json::object! {
    CohereCounts {
        input: Raw<'a> = "input_tokens",
        output: Raw<'a> = "output_tokens",
        reasoning: Raw<'a> = "reasoning_tokens",
    }
}

/// What the model read and wrote; where only the bill is stated, that.
pub(super) fn state_cohere(usage: &mut Option<Usage>, stated: Raw<'_>) {
    let Some(counts) = json::inner::<CohereUsage<'_>>(stated) else { return };
    let count = |of: fn(&CohereCounts<'_>) -> Option<u64>| {
        [&counts.tokens.0, &counts.billed.0].into_iter().flatten().find_map(of)
    };
    let stated = Usage {
        input_tokens: count(|counts| json::count(counts.input)),
        output_tokens: count(|counts| json::count(counts.output)),
        cached_input_tokens: json::count(counts.cached),
        reasoning_tokens: count(|counts| json::count(counts.reasoning)),
        ..Usage::default()
    };
    if let Some(known) = merge(usage, stated) {
        known.input_includes_cached = true;
        known.output_includes_reasoning = true;
    }
}

/// OpenAI's habit, unless the numbers themselves deny it.
fn includes_cached(usage: &Usage) -> bool {
    let cached = usage.cached_input_tokens.unwrap_or(0).saturating_add(usage.cache_write_input_tokens.unwrap_or(0));
    usage.input_tokens.is_none_or(|input| cached <= input)
}

/// By the total where it tells, else by the habit of every protocol read here, unless the numbers deny it.
fn includes_reasoning(usage: &Usage) -> bool {
    let (Some(output), Some(reasoning @ 1..)) = (usage.output_tokens, usage.reasoning_tokens) else { return true };
    let sum = usage.input_tokens.and_then(|input| input.checked_add(output));
    match (usage.total_tokens, sum) {
        (Some(total), Some(sum)) if total == sum => true,
        (Some(total), Some(sum)) if Some(total) == sum.checked_add(reasoning) => false,
        _ => reasoning <= output,
    }
}
