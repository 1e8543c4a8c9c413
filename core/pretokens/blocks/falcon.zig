//! Masks → starts of pretokens of Falcon. The rules are in ../falcon.zig.
//!
//! A pretoken starts wherever a run of bytes displayed as digits begins or ends, even inside a
//! character.

const platform = @import("../../platform.zig");
const vector = platform.vector;
const unicode = @import("../../unicode.zig");
const Bytes = vector.Bytes;
const bits = vector.bits;
const splat = vector.splat;
const masks_ = @import("masks.zig");
const Masks = masks_.Masks;
const shared = @import("shared.zig");

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
