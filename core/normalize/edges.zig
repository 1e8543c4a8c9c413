//! Text → text with a prefix, without surrounding whitespace, or without repeated spaces.

const std = @import("std");
const platform = @import("../platform.zig");
const unicode = @import("../unicode.zig");
const Output = @import("output.zig").Output;

/// Writes `prefix` and the text, and returns false if either is empty. The prefix has the span of
/// the first character.
pub fn prepend(prefix: []const u8, output: *Output) error{OutOfMemory}!bool {
    const text = output.old;
    if (text.len == 0 or prefix.len == 0) return false;
    const first = unicode.decode(text, 0);
    try output.replace(0, first.len, 0, prefix);
    try output.keep(text.len);
    return true;
}

/// Writes the text without surrounding whitespace, and returns whether there was any.
pub fn strip(left: bool, right: bool, output: *Output) error{OutOfMemory}!bool {
    const text = output.old;
    var start: usize = 0;
    while (left and start < text.len) {
        const char = unicode.decode(text, start);
        if (!unicode.class(char.code_point).space) break;
        start += char.len;
    }
    var end = text.len;
    while (right and end > start) {
        const char = unicode.decodeBefore(text, end);
        if (!unicode.class(char.code_point).space) break;
        end -= char.len;
    }
    if (end - start == text.len) return false;
    output.cursor = start;
    try output.keep(end);
    return true;
}

const lanes = 32;
const Bytes = @Vector(lanes, u8);

/// Returns the first space from `from` that is followed by another; `text.len` if there is none.
fn nextDouble(text: []const u8, from: usize) usize {
    var index = from;
    const blanks: Bytes = @splat(' ');
    while (text.len - index > lanes) : (index += lanes) {
        const here = @as(Bytes, text[index..][0..lanes].*) == blanks;
        const after = @as(Bytes, text[index + 1 ..][0..lanes].*) == blanks;
        const mask = platform.vector.bits(here) & platform.vector.bits(after);
        if (mask != 0) return index + @ctz(mask);
    }
    while (index + 1 < text.len) : (index += 1) {
        if (text[index] == ' ' and text[index + 1] == ' ') return index;
    }
    return text.len;
}

/// SentencePiece's remove_extra_whitespaces. Removes spaces at the start, and replaces several
/// spaces by one with the span of all. At the end it operates on the text with "▁" for spaces, so
/// an original "▁" is removed as well. Returns whether the text differs.
pub fn squeeze(output: *Output) error{OutOfMemory}!bool {
    const text = output.old;
    const start = std.mem.indexOfNone(u8, text, " ") orelse text.len;
    var end = text.len;
    while (end > start) {
        const rest = text[start..end];
        const len = for ([_][]const u8{ " ", "\u{2581}" }) |blank| {
            if (std.mem.endsWith(u8, rest, blank)) break blank.len;
        } else break;
        end -= len;
    }
    var index = nextDouble(text[0..end], start);
    if (end - start == text.len and index == end) return false;
    output.cursor = start;
    while (index < end) : (index = nextDouble(text[0..end], output.cursor)) {
        try output.keep(index);
        const run = std.mem.indexOfNonePos(u8, text, index, " ") orelse unreachable;
        try output.squeeze(index, run);
    }
    try output.keep(end);
    return true;
}
