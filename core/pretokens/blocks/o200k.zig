//! Masks → starts of pretokens of o200k's family. The patterns are in ../schemes.zig.
//!
//! Within a run of letters, a word ends where a letter only in [L] precedes one only in [U].
//! Letters in both sets have no effect unless a letter only in [U] follows them. In that case the
//! block ends.

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

        /// Returns a bit for each start of a pretoken. The first byte of the block is one.
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

        /// Returns the undecided positions: a letter only in [U] after a letter in both sets.
        pub inline fn unclear(m: *const Masks) u64 {
            const both = m.letter & ~(m.upper | m.lower);
            return m.upper & both << 1;
        }

        /// Whether a character other than a letter can begin a word.
        pub inline fn mayPrecedeWord(_: u8, class: unicode.Class) bool {
            return runs.isPrefix(class);
        }

        /// Returns the letters that do not end a word in any context: those in both sets.
        pub inline fn inWord(m: *const Masks, _: [*]const u8, _: u21) u64 {
            return m.letter & ~(m.upper | m.lower);
        }

        /// Returns the characters that may continue the word after such letters.
        pub inline fn maybeInWord(m: *const Masks) u64 {
            return m.upper | m.lower | m.apostrophe;
        }
    };
}

/// A contraction belongs to the word before it, but a second one in a row does not.
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
