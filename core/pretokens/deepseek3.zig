//! Text → pretokens of DeepSeek V3 and R1, which split a text three times, each time within the
//! pieces of the previous split:
//!
//!     \p{N}{1,3}
//!     [一-龥぀-ゟ゠-ヿ]+
//!     [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//!     | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//!
//! Text that no pattern matches is a pretoken too. For the third pattern, a number ends the text,
//! as does the change between characters of the second pattern, called Han here, and all others.
//!
//! In a block, each piece of the first two splits is a start. Whitespace before such a piece is
//! treated like whitespace at the end of a text, so its last space before a number or Han is not
//! separate.

const masks_ = @import("blocks/masks.zig");
const runs = @import("runs.zig");
const shared = @import("blocks/shared.zig");
const unicode = @import("../unicode.zig");
const vector = @import("../platform.zig").vector;
const Bytes = vector.Bytes;
const Masks = masks_.Masks;
const bits = vector.bits;
const splat = vector.splat;

/// Returns the end of the pretoken at `start`, which must be below `text.len`.
pub inline fn next(text: []const u8, start: usize, known: ?*runs.Known) usize {
    const first = runs.step(text, start);
    if (first.class.number) return runs.numbersEnd(text, start, 3);
    if (runs.isHan(first.code_point)) return Piece(.han).next(text, start, first, known);
    return Piece(.plain).next(text, start, first, known);
}

fn Piece(comptime group: enum { plain, han }) type {
    return struct {
        const word: runs.Kind = if (group == .han) .han_word else .plain_word;
        const symbol: runs.Kind = if (group == .han) .han_symbol else .plain_symbol;
        const rest: runs.Kind = if (group == .han) .han_rest else .plain_rest;

        fn next(text: []const u8, start: usize, first: runs.Step, known: ?*runs.Known) usize {
            if (runs.is(word, first)) return runs.runEnd(text, first.end, word, known);
            const second = if (first.end < text.len) runs.step(text, first.end) else null;
            if (first.class.symbol) {
                if (second) |some| if (text[start] < 0x80 and runs.is(.latin, some)) {
                    return runs.runEnd(text, some.end, .latin, known);
                };
                return symbolsEnd(text, first.end, known);
            }
            if (second) |some| {
                const is_prefixed = !first.class.newline and runs.is(word, some);
                if (is_prefixed) return runs.runEnd(text, some.end, word, known);
                if (text[start] == ' ' and runs.is(symbol, some)) {
                    return symbolsEnd(text, some.end, known);
                }
            }
            if (!first.class.space) return restEnd(text, first.end, known);
            const space = runs.Space.at(text, start, known);
            if (space.newline_end != 0) return space.newline_end;
            if (isEdge(text, space.end)) return space.end;
            return space.endBeforeText(text, start);
        }

        fn symbolsEnd(text: []const u8, index: usize, known: ?*runs.Known) usize {
            const end = runs.runEnd(text, index, symbol, known);
            // Newlines are not Han.
            return if (group == .han) end else runs.runEnd(text, end, .newline, known);
        }

        /// Returns the end of a run of characters that begin no alternative. If a word follows, the
        /// last of them belongs to the word.
        fn restEnd(text: []const u8, index: usize, known: ?*runs.Known) usize {
            const end = runs.runEnd(text, index, rest, known);
            if (end == index or end == text.len) return end;
            if (!runs.is(word, runs.step(text, end))) return end;
            return end - unicode.decodeBefore(text, end).len;
        }
    };
}

/// Whether the piece with the whitespace before `index` ends there.
fn isEdge(text: []const u8, index: usize) bool {
    if (index == text.len) return true;
    const behind = runs.step(text, index);
    return behind.class.number or runs.isHan(behind.code_point);
}

/// Masks → starts of pretokens.
pub const Blocks = struct {
    /// Marks after letters are letters. A character that is neither a word character nor a symbol
    /// ends the block.
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
        const behind_latin: u64 =
            if (ascii) 0 else masks_.flood(seeds, latin) << 1 & m.letter & ~latin;
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
};
