//! Masks → starts of GPT-2's pretokens.
//!
//!     '(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s

const Masks = @import("masks.zig").Masks;
const unicode = @import("../../unicode.zig");
const contractions = @import("contractions.zig");

pub const letters = .plain;

/// A bit where a pretoken starts; the first byte of the block starts one.
pub inline fn starts(comptime _: bool, text: [*]const u8, m: *const Masks) u64 {
    const words = (m.letter & ~(m.letter << 1)) | (m.number & ~(m.number << 1)) |
        (m.other & ~(m.other << 1));
    // The last of a run of white space goes with what follows if it is a blank.
    const space_starts = m.space & ~(m.space << 1);
    const space_lasts = m.space & ~(m.space >> 1);
    var bits = (words & ~(m.blank << 1)) | space_starts | space_lasts;
    const other_starts = m.other & ~(m.other << 1) & ~(m.blank << 1);
    var candidates = m.apostrophe & other_starts & (m.letter >> 1);
    while (candidates != 0) : (candidates &= candidates - 1) {
        const at: u6 = @intCast(@ctz(candidates));
        bits = contractions.split(bits, text, at, .sensitive);
    }
    return bits;
}

/// Every start is clear in this scheme.
pub inline fn unclear(_: *const Masks) u64 {
    return 0;
}

/// Whether a character can be the first of a word without being a letter.
pub inline fn mayPrecedeWord(first: u8, _: unicode.Class) bool {
    return first == ' ';
}

/// The letters that do not end a word.
pub inline fn inWord(m: *const Masks, _: [*]const u8, _: u21) u64 {
    return m.letter;
}

/// What is no letter always ends a word.
pub inline fn maybeInWord(_: *const Masks) u64 {
    return 0;
}
