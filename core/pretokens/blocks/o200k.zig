//! Masks → starts of pretokens of o200k's family; the patterns are in ../schemes.zig.
//!
//! Inside a run of letters a word ends where a pure [L] is followed by a pure [U]. Letters in both
//! sets decide nothing as long as no pure [U] follows them; where one does, the block ends.

const unicode = @import("../../unicode.zig");
const runs = @import("../runs.zig");
const masks_ = @import("masks.zig");
const Masks = masks_.Masks;
const contractions = @import("contractions.zig");
const shared = @import("shared.zig");
const Options = @import("../schemes.zig").O200k;

pub fn Scheme(comptime options: Options) type {
    return struct {
        pub const letters: masks_.Letters = .cased;

        /// A bit where a pretoken starts; the first byte of the block starts one.
        pub inline fn starts(comptime ascii: bool, text: [*]const u8, m: *const Masks) u64 {
            const taken = masks_.flood(m.newline & (m.other << 1), m.newline | m.slash);
            const other = m.other & ~taken;
            const other_starts = other & ~(other << 1) & ~(m.blank << 1);
            const word_starts = m.letter & ~(m.letter << 1) & ~((m.space & ~m.newline) << 1) &
                ~shared.afterSingle(ascii, m, other_starts);
            const bits = word_starts | (m.upper & m.lower << 1) | other_starts |
                shared.numbers(m.number, options.numbers_max) | shared.spaces(m, taken, 0);
            if (!options.has_contractions) return bits;
            const candidates = m.apostrophe & (m.letter << 1) & (m.letter >> 1);
            return if (candidates == 0) bits else withSuffixes(bits, candidates, text);
        }

        /// Where a start is not known to be one or none: a pure [U] behind a letter in both sets.
        pub inline fn unclear(m: *const Masks) u64 {
            const both = m.letter & ~(m.upper | m.lower);
            return m.upper & both << 1;
        }

        /// Whether a character can be the first of a word without being a letter.
        pub inline fn mayPrecedeWord(_: u8, class: unicode.Class) bool {
            return runs.isPrefix(class);
        }

        /// The letters that do not end a word, whatever is before them: those in both sets.
        pub inline fn inWord(m: *const Masks, _: [*]const u8, _: u21) u64 {
            return m.letter & ~(m.upper | m.lower);
        }

        /// Where such letters may be followed by more of the word.
        pub inline fn maybeInWord(m: *const Masks) u64 {
            return m.upper | m.lower | m.apostrophe;
        }
    };
}

/// A contraction belongs to the word before it, but two of them in a row do not.
inline fn withSuffixes(bits: u64, candidates: u64, text: [*]const u8) u64 {
    var result = bits;
    var rest = candidates;
    while (rest != 0) : (rest &= rest - 1) {
        const at: u6 = @intCast(@ctz(rest));
        const len = contractions.length(text, at, .insensitive);
        if (len == 0) continue;
        const behind = @as(u64, 1) << at << len;
        result = contractions.split(result, text, at, .insensitive) & ~(@as(u64, 1) << at);
        rest &= ~behind | (@as(u64, 1) << at);
    }
    return result;
}
