//! A session → the number of its leading ids that stay the same, whatever text is appended.
//!
//! The session has checkpoints at large distances. After the last one that the appended text cannot
//! affect, single pretokens are checked. Only the end of the text that may begin an added token is
//! left out.

const std = @import("std");
const encoder_ = @import("../encode/encoder.zig");
const pretokens = @import("../pretokens.zig");
const Direct = @import("direct.zig").Session;
const Effort = @import("../added.zig").Effort;
const Encoder = encoder_.Encoder;
const Error = encoder_.Error;
const Names = @import("../added.zig").Names;
const Prepared = @import("prepared.zig").Prepared;

pub fn ofDirect(session: *Direct, encoder: *Encoder) Error!usize {
    const names = &session.tokenizer.preprocessor.raw.names;
    return idsBefore(session, encoder, openStart(names, session.text.items, session.allowed));
}

pub fn ofPrepared(prepared: *Prepared, encoder: *Encoder) Error!usize {
    const names = &prepared.session.tokenizer.preprocessor.raw.names;
    const end = openStart(names, prepared.text.items, prepared.choice);
    const safe_point = prepared.safe_points.items[prepared.safePointBefore(end)];
    return idsBefore(&prepared.session, encoder, safe_point.at);
}

/// Returns the first offset at which an added token may begin that the text contains only a part
/// of, or the length of the text.
fn openStart(names: *const Names, text: []const u8, choice: ?[]const u8) usize {
    const which = choice orelse return text.len;
    var at = text.len -| (names.len_max -| 1);
    while (at < text.len) : (at += 1) {
        const rest = text[at..];
        for (names.firsts[rest[0]]..names.firsts[@as(usize, rest[0]) + 1]) |index| {
            const name = names.name(index);
            if (which[names.places[index]] == 0 or name.len <= rest.len) continue;
            if (std.mem.startsWith(u8, name, rest)) return at;
        }
    }
    return text.len;
}

/// Returns the number of leading ids that depend only on the first `end` bytes.
fn idsBefore(session: *Direct, encoder: *Encoder, end: usize) Error!usize {
    const checkpoint = session.checkpoints.items[session.checkpointBefore(end)];
    const scheme = &session.tokenizer.scheme;
    var count = checkpoint.ids_before;
    switch (scheme.*) {
        .program, .stages => return count,
        else => {},
    }
    const text = session.text.items[checkpoint.document..documentEnd(session, checkpoint.start)];
    const is_known = session.known_document == checkpoint.document;
    const known = if (is_known) &session.known else null;
    var start = checkpoint.start - checkpoint.document;
    while (start < text.len) {
        const next = pretokens.endFrom(scheme, text, start, known);
        const reach = pretokens.reachOf(scheme, text, next, known);
        if (checkpoint.document + reach > end) break;
        count += try encoder.countPretoken(text[start..next]);
        start = next;
    }
    return count;
}

/// Returns the end of the document that continues at `start`.
fn documentEnd(session: *const Direct, start: usize) usize {
    const text = session.text.items;
    const boundaries = session.boundaries.items[session.boundariesBefore(start)..];
    if (boundaries.len > 0) return boundaries[0].at;
    const choice = session.allowed orelse return text.len;
    var effort: Effort = .{ .gpa = session.gpa };
    defer effort.deinit();
    const names = &session.tokenizer.preprocessor.raw.names;
    var search = names.search(text, start, choice, &effort);
    return if (search.next()) |found| found.start else text.len;
}
