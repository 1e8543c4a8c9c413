//! Text and a search pattern → text with every match replaced.
//!
//! A replacement has the span of the last character that it replaces, as in Hugging Face's library.
//! Matches are never empty.

const std = @import("std");
const Matcher = @import("../pattern/matcher.zig").Matcher;
const Program = @import("../pattern/program.zig").Program;
const Output = @import("output.zig").Output;

/// Writes the text with `content` for every `literal`, and returns whether there was one.
pub fn literally(
    literal: []const u8,
    content: []const u8,
    output: *Output,
) error{OutOfMemory}!bool {
    const text = output.old;
    var start = std.mem.indexOf(u8, text, literal) orelse return false;
    while (true) {
        try output.keep(start);
        const end = start + literal.len;
        try output.replace(end - 1, end, end, content);
        start = std.mem.indexOfPos(u8, text, end, literal) orelse break;
    }
    try output.keep(text.len);
    return true;
}

/// Writes the text with `content` for every match of `program`, and returns whether there was one.
pub fn matches(
    program: *const Program,
    content: []const u8,
    output: *Output,
) error{OutOfMemory}!bool {
    var matcher: Matcher = .init(output.gpa, program, output.old);
    defer matcher.deinit();
    var changed = false;
    while (try matcher.next(output.cursor)) |match| {
        changed = true;
        try output.keep(match.start);
        try output.replace(match.end - 1, match.end, match.end, content);
    }
    if (changed) try output.keep(output.old.len);
    return changed;
}
