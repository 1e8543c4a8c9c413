//! Masks → starts of pretokens of DeepSeek V3. The patterns are in ../deepseek3.zig.
//!
//! Each piece of the first two splits is a start. Whitespace before such a piece is treated like
//! whitespace at the end of a text, so its last space before a number or Han is not separate.

const platform = @import("../../platform.zig");
const vector = platform.vector;
const unicode = @import("../../unicode.zig");
const runs = @import("../runs.zig");
const Bytes = vector.Bytes;
const bits = vector.bits;
const splat = vector.splat;
const masks_ = @import("masks.zig");
const Masks = masks_.Masks;
const shared = @import("shared.zig");

/// Marks after letters are letters. A character that is neither a word character nor a symbol ends
/// the block.
pub const letters: masks_.Letters = .strict;

/// Returns a bit for each start of a pretoken. The first byte of the block is one.
pub inline fn starts(comptime ascii: bool, text: [*]const u8, m: *const Masks) u64 {
    const known = masks_.low(m.valid);
    const single_bytes = if (ascii) known else known & ~Masks.nonAscii(text, m.valid);
    const han: u64 = if (ascii) 0 else hanIn(text) & known;
    const edges = ((m.number << 1 & ~m.number) | (han ^ han << 1)) & known;
    const taken = masks_.flood(m.newline & ((m.other & ~han) << 1), m.newline);
    const symbol_starts = m.other & ~(m.other << 1) & ~(m.blank << 1);
    // A single ASCII symbol takes the ASCII letters after it.
    const singles = m.other & single_bytes & ~((m.other & ~han) << 1) & ~(m.blank << 1);
    const latin = m.letter & single_bytes;
    const seeds = latin & singles << 1;
    const word_starts = m.letter & ~(m.letter << 1) & ~((m.space & ~m.newline) << 1) & ~seeds;
    const behind_latin: u64 = if (ascii) 0 else masks_.flood(seeds, latin) << 1 & m.letter & ~latin;
    return word_starts | symbol_starts | behind_latin | edges | shared.numbers(m.number, 3) |
        shared.spaces(m, taken, m.number | han);
}

/// Returns all bytes of [一-龥぀-ゟ゠-ヿ].
inline fn hanIn(text: [*]const u8) u64 {
    const first: Bytes = vector.load(text);
    const second: Bytes = vector.load(text + 1);
    const third: Bytes = vector.load(text + 2);
    // U+4E00 to U+9FA5
    const han = bits(first -% splat(0xE5) < splat(4)) |
        (bits(first == splat(0xE4)) & bits(second >= splat(0xB8))) |
        (bits(first == splat(0xE9)) & (bits(second < splat(0xBE)) |
            (bits(second == splat(0xBE)) & bits(third < splat(0xA6)))));
    // U+3040 to U+30FF
    const kana = bits(first == splat(0xE3)) & bits(second -% splat(0x81) < splat(3));
    const leads = han | kana;
    return leads | leads << 1 | leads << 2;
}

/// All starts are certain here.
pub inline fn unclear(_: *const Masks) u64 {
    return 0;
}

/// Whether a character other than a letter can begin a word.
pub inline fn mayPrecedeWord(_: u8, class: unicode.Class) bool {
    return class.space and !class.newline;
}

/// Returns the letters that do not end a word: Han in a Han word, others in another word.
pub inline fn inWord(m: *const Masks, text: [*]const u8, first: u21) u64 {
    const han = hanIn(text);
    return m.letter & if (runs.isHan(first)) han else ~han;
}

/// Any other character ends a word.
pub inline fn maybeInWord(_: *const Masks) u64 {
    return 0;
}
