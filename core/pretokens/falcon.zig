//! Text → pretokens of Falcon, which splits a text four times, each time within the pieces of the
//! previous split:
//!
//!     runs of Hugging Face's punctuation
//!      ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
//!     runs of bytes that byte-level vocabularies display as digits: ASCII digits, and 0xB2 as ²
//!     [0-9][0-9][0-9]
//!
//! The second is GPT-2's pattern. Its contractions never match, since the first split separates the
//! apostrophe. The third splits inside characters. There a pretoken continues with the class of its
//! character, which is decoded from the bytes before it. A pretoken depends on no other text before
//! its start. In a block, a pretoken starts wherever a run of bytes displayed as digits begins or
//! ends.

const std = @import("std");
const masks_ = @import("blocks/masks.zig");
const runs = @import("runs.zig");
const sets = @import("sets.zig");
const shared = @import("blocks/shared.zig");
const unicode = @import("../unicode.zig");
const vector = @import("../platform.zig").vector;
const Bytes = vector.Bytes;
const Masks = masks_.Masks;
const bits = vector.bits;
const splat = vector.splat;

/// Returns the end of the pretoken at `start`, which must be below `text.len`.
pub inline fn next(text: []const u8, start: usize, known: ?*runs.Known) usize {
    const first = stepOver(text, start);
    if (!first.class.space) return textEnd(text, start, first, known);
    if (text[start] == ' ' and start + 1 < text.len) {
        const second = runs.step(text, start + 1);
        // The third split separates a digit from its space.
        const is_kept = !sets.spelled_digits[text[start + 1]] and !runs.is(.point, second);
        if (is_kept and !second.class.space) return textEnd(text, start + 1, second, known);
    }
    const space = runs.Space.at(text, start, known);
    if (space.end < text.len and runs.is(.point, runs.step(text, space.end))) return space.end;
    return space.endBeforeText(text, start);
}

/// Returns the character that contains the byte at `index`.
inline fn stepOver(text: []const u8, index: usize) runs.Step {
    var start = index;
    const start_min = index -| 3;
    while (text[start] & 0xC0 == 0x80 and start > start_min) start -= 1;
    const char = runs.step(text, start);
    return if (char.end > index) char else runs.step(text, index);
}

/// Returns the end of the pretoken that continues at `start`, which is inside `first`.
inline fn textEnd(text: []const u8, start: usize, first: runs.Step, known: ?*runs.Known) usize {
    if (first.class.letter) return partEnd(.letter, text, start, first.end, known);
    if (first.class.number) return partEnd(.number, text, start, first.end, known);
    if (runs.is(.point, first)) return partEnd(.point, text, start, first.end, known);
    return partEnd(.unpoint, text, start, first.end, known);
}

/// Returns the end of a run of one kind whose bytes are all digits, or all not, for the third
/// split. `first_end` is the end of the character at `start`.
inline fn partEnd(
    comptime kind: runs.Kind,
    text: []const u8,
    start: usize,
    first_end: usize,
    known: ?*runs.Known,
) usize {
    const is_digit = sets.spelled_digits[text[start]];
    if (kind == .number and is_digit) return numbersEnd(text, start, first_end);
    var at = start + 1;
    var end = first_end;
    if (known) |memory| {
        const uncut = memory.uncutFrom(text, start);
        if (uncut > start) {
            at = @max(at, uncut);
            end = @max(end, uncut);
        }
    }
    const cut = while (true) {
        while (at < end) : (at += 1) {
            if (sets.spelled_digits[text[at]] != is_digit) break;
        }
        if (at < end or end == text.len) break at;
        const char = runs.step(text, end);
        if (!runs.is(kind, char)) break at;
        end = char.end;
    };
    if (known) |memory| memory.keepUncut(text, start, cut);
    return cut;
}

/// The same for digits in a run of numbers. The fourth split takes three ASCII digits, or the bytes
/// before them.
fn numbersEnd(text: []const u8, start: usize, first_end: usize) usize {
    var at = start;
    var end = first_end;
    var count: usize = 0;
    while (true) {
        while (at < end) : (at += 1) {
            if (!sets.spelled_digits[text[at]]) return at;
            count = if (text[at] < 0x80) count + 1 else 0;
            if (count == 3) return if (at - 2 == start) at + 1 else at - 2;
        }
        if (end == text.len) return end;
        const char = runs.step(text, end);
        if (!char.class.number) return end;
        end = char.end;
    }
}

/// Masks → starts of pretokens.
pub const Blocks = struct {
    /// Punctuation is distinguished from other symbols.
    pub const letters: masks_.Letters = .pointed;

    /// Returns a bit for each start of a pretoken. The first byte of the block is one.
    pub inline fn starts(comptime ascii: bool, text: [*]const u8, m: *const Masks) u64 {
        const rest = m.other & ~m.point;
        const words = (m.letter & ~(m.letter << 1)) | (rest & ~(rest << 1));
        const points = m.point & ~(m.point << 1);
        const digits = if (ascii) m.number else digitsIn(text) & masks_.low(m.valid);
        const edges = digits ^ digits << 1;
        // Punctuation ends whitespace like the end of a text.
        const space_starts = m.space & ~(m.space << 1);
        const space_lasts = m.space & ~(m.space >> 1) & ~(m.point >> 1);
        return (words & ~(m.blank << 1)) | points | edges | shared.numbers(m.number, 3) |
            space_starts | space_lasts;
    }

    /// Returns the bytes that are displayed as digits.
    inline fn digitsIn(text: [*]const u8) u64 {
        const bytes: Bytes = vector.load(text);
        return bits(bytes -% splat('0') < splat(10)) | bits(bytes -% splat(0xB2) < splat(2)) |
            bits(bytes == splat(0xB9)) | bits(bytes -% splat(0xBC) < splat(3));
    }

    /// All starts are certain here.
    pub inline fn unclear(_: *const Masks) u64 {
        return 0;
    }

    /// Whether a character other than a letter can begin a word.
    pub inline fn mayPrecedeWord(first: u8, _: unicode.Class) bool {
        return first == ' ';
    }

    /// Returns the bytes of letters that do not end a word.
    pub inline fn inWord(m: *const Masks, text: [*]const u8, _: u21) u64 {
        return m.letter & ~digitsIn(text);
    }

    /// Any other character ends a word.
    pub inline fn maybeInWord(_: *const Masks) u64 {
        return 0;
    }
};

test "falcon: punctuation is never a letter, a number or whitespace" {
    for (0..0x110000) |code_point| {
        if (!sets.Punctuation.has(@intCast(code_point))) continue;
        try std.testing.expect(runs.isOther(unicode.class(@intCast(code_point))));
    }
}
