//! Text that the tokenizer preprocesses, and a number of tokens → the cut.
//!
//! As in truncate.zig candidates are encoded, here with a session that derives each from the
//! previous one in a few microseconds. The search for a prefix starts at a length from which on
//! every text has too many tokens. A normalization boundary of the session proves that, so the
//! removed text is not encoded. For tokenizers without such boundaries (see prepared.zig), and for
//! suffixes, the search starts slightly beyond the offset where the limit is reached.
//!
//! **Invariant** as in truncate.zig, except for steps that remove text of any length at the end
//! (Strip). With these, a longer part may normalize to one that was tried.

const std = @import("std");
const ids = @import("../ids.zig");
const unicode = @import("../unicode.zig");
const isBoundary = @import("truncate.zig").isBoundary;
const Prepared = @import("prepared.zig").Prepared;
const Tail = @import("truncate_tail.zig").Tail;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

/// Bytes that candidates may be made from before the search takes larger steps.
const work_max = 32 << 20;

/// The text grows by this many bytes near the limit, so the checkpoints of the session are as
/// dense.
const step_bytes = 64;

/// Without boundaries the search starts this many tokens after the last one that fits, or
/// `tokens_far` if they are long. A suffix search starts `suffix_reach` bytes before the first one.
const tokens_beyond = 64;
const tokens_far = 4;
const bytes_beyond = 512;
const suffix_reach = 256;

/// Returns the length of the longest prefix with at most `tokens_max` tokens.
pub fn prefixEnd(encoder: *ids.Encoder, text: []const u8, tokens_max: usize) ids.Error!usize {
    const tokenizer = encoder.tokenizer;
    var session: Prepared = try .init(encoder.gpa, tokenizer, tokenizer.front.choiceOf(null));
    defer session.deinit();
    var end = text.len;
    if (session.has_stops) end = try provenEnd(encoder, &session, text, tokens_max);
    // A long run has no offset that proves the limit.
    if (session.session.ids.items.len > tokens_max +| tokens_beyond or !session.has_stops) {
        end = try likelyEnd(encoder, text[0..end], tokens_max);
    }
    var work: usize = 0;
    var step: usize = 1;
    while (end > 0) {
        while (!isBoundary(text, end)) end -= 1;
        const before = session.session.bytes_encoded;
        const made = session.bytesBehindPoint(@min(end, session.text.items.len));
        try setLen(encoder, &session, text, end);
        const tokens = session.session.ids.items.len;
        if (tokens <= tokens_max) return end;
        try encoder.merger.pollAfter(made);
        work += @intCast(made + session.session.bytes_encoded - before);
        if (work > work_max) step *= 2;
        end -|= step;
    }
    return 0;
}

fn setLen(encoder: *ids.Encoder, session: *Prepared, text: []const u8, len: usize) !void {
    const known = @min(session.text.items.len, len);
    _ = try session.replace(encoder, known, text[known..len]);
}

/// Returns a length from which on all prefixes have too many tokens, or the length of the text.
fn provenEnd(
    encoder: *ids.Encoder,
    session: *Prepared,
    text: []const u8,
    tokens_max: usize,
) ids.Error!usize {
    // Four bytes per token are usual.
    var len = @min(text.len, tokens_max *| 4 +| 1024);
    while (true) : (len = @min(text.len, len *| 2)) {
        try setLen(encoder, session, text, len);
        if (session.lengthBeyond(tokens_max) != null or len == text.len) break;
    }
    if (session.session.ids.items.len <= tokens_max) return text.len;
    try setLen(encoder, session, text, session.startUpTo(tokens_max));
    var steps: usize = 0;
    while (session.text.items.len < text.len) : (steps += 1) {
        // In a long run small steps would be numerous, and each one scans the whole run.
        const step = @as(usize, step_bytes) << @as(u5, @intCast(@min(steps / 16, 20)));
        try setLen(encoder, session, text, @min(text.len, session.text.items.len + step));
        if (session.lengthBeyond(tokens_max)) |found| return @min(text.len, found);
    }
    return text.len;
}

/// Returns a length at which a prefix has too many tokens, most likely like all longer ones.
/// Returns the length of the text if that fits.
fn likelyEnd(encoder: *ids.Encoder, text: []const u8, tokens_max: usize) ids.Error!usize {
    var spans: ids.Spans = .init(encoder.gpa);
    defer spans.deinit();
    try encoder.encode(text, null, &spans);
    const all = spans.spans.items;
    if (all.len <= tokens_max) return text.len;
    const vocabulary = &encoder.tokenizer.vocabulary;
    const last = all[tokens_max].end;
    for (all[tokens_max..], 0..) |span, index| {
        const is_far = span.end > last +| reachOf(vocabulary, bytes_beyond) and index >= tokens_far;
        if (is_far or (index == tokens_beyond and vocabulary.is_closed)) return span.end;
    }
    return text.len;
}

/// Returns the distance to search around a likely cut. A pretoken that is a token as a whole is one
/// token, but with one more character it may be hundreds.
fn reachOf(vocabulary: *const Vocabulary, usual: u32) u32 {
    return if (vocabulary.is_closed) usual else @max(usual, vocabulary.token_len_max);
}

/// Returns the start of the longest suffix with at most `tokens_max` tokens.
pub fn suffixStart(encoder: *ids.Encoder, text: []const u8, tokens_max: usize) ids.Error!usize {
    const reach = reachOf(&encoder.tokenizer.vocabulary, suffix_reach);
    var len = tokens_max *| 4 +| @max(1024, 2 * @as(usize, reach));
    var from: usize = undefined;
    var start = while (true) : (len *|= 2) {
        from = text.len -| len;
        while (!isBoundary(text, from)) from -= 1;
        var spans: ids.Spans = .init(encoder.gpa);
        defer spans.deinit();
        try encoder.encode(text[from..], null, &spans);
        const all = spans.spans.items;
        if (from == 0 and all.len <= tokens_max) return 0;
        if (from > 0 and all.len <= tokens_max +| tokens_beyond) continue;
        break (from + all[all.len - tokens_max - 1].start) -| reach;
    };
    var tail: Tail = try .init(encoder, text, from);
    defer tail.deinit();
    start = @max(start, from);
    while (!isBoundary(text, start)) start += 1;
    var step: usize = 1;
    while (start < text.len) {
        const tokens = try tail.tokensFrom(start);
        if (tokens <= tokens_max) return start;
        if (tail.work > work_max) step *= 2;
        for (0..step) |_| {
            if (start < text.len) start += unicode.decode(text, start).len;
        }
    }
    return text.len;
}
