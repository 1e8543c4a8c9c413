//! Masks → starts of pretokens of Falcon; how it cuts is in ../falcon.zig.
//!
//! Something starts wherever bytes that are shown as digits begin or end, also inside a character.

const unicode = @import("../../unicode.zig");
const bytes_ = @import("bytes.zig");
const Bytes = bytes_.Bytes;
const bits = bytes_.bits;
const splat = bytes_.splat;
const masks_ = @import("masks.zig");
const Masks = masks_.Masks;
const shared = @import("shared.zig");

/// Of what is neither letter nor number, punctuation is told apart.
pub const letters: masks_.Letters = .pointed;

/// A bit where a pretoken starts; the first byte of the block starts one.
pub inline fn starts(comptime ascii: bool, text: [*]const u8, m: *const Masks) u64 {
    const rest = m.other & ~m.point;
    const words = (m.letter & ~(m.letter << 1)) | (rest & ~(rest << 1));
    const points = m.point & ~(m.point << 1);
    const digits = if (ascii) m.number else digitsIn(text) & masks_.low(m.valid);
    const edges = digits ^ digits << 1;
    // Punctuation ends white space as the end of a text does.
    const space_starts = m.space & ~(m.space << 1);
    const space_lasts = m.space & ~(m.space >> 1) & ~(m.point >> 1);
    return (words & ~(m.blank << 1)) | points | edges | shared.numbers(m.number, 3) |
        space_starts | space_lasts;
}

/// Bytes that are shown as digits.
inline fn digitsIn(text: [*]const u8) u64 {
    const bytes: Bytes = bytes_.load(text);
    return bits(bytes -% splat('0') < splat(10)) | bits(bytes -% splat(0xB2) < splat(2)) |
        bits(bytes == splat(0xB9)) | bits(bytes -% splat(0xBC) < splat(3));
}

/// Every start is clear in this scheme.
pub inline fn unclear(_: *const Masks) u64 {
    return 0;
}

/// Whether a character can be the first of a word without being a letter.
pub inline fn mayPrecedeWord(first: u8, _: unicode.Class) bool {
    return first == ' ';
}

/// The bytes of letters that do not end a word.
pub inline fn inWord(m: *const Masks, text: [*]const u8, _: u21) u64 {
    return m.letter & ~digitsIn(text);
}

/// What is no letter always ends a word.
pub inline fn maybeInWord(_: *const Masks) u64 {
    return 0;
}
