//! Masks → starts of pretokens of cl100k's family. The patterns are in ../schemes.zig.
//!
//! In whitespace at the end of the text no start is certain. The scalar scanner handles it,
//! depending on whether the pattern has `\s++$`.

const unicode = @import("../../unicode.zig");
const runs = @import("../runs.zig");
const masks_ = @import("masks.zig");
const Masks = masks_.Masks;
const contractions = @import("contractions.zig");
const shared = @import("shared.zig");

pub fn Scheme(comptime numbers_max: u2, comptime has_marks: bool) type {
    return struct {
        /// With case, marks after letters are letters, and any other mark ends the block.
        pub const letters: masks_.Letters = if (has_marks) .cased else .plain;

        /// Returns a bit for each start of a pretoken. The first byte of the block is one.
        pub inline fn starts(comptime ascii: bool, text: [*]const u8, m: *const Masks) u64 {
            const taken = masks_.flood(m.newline & (m.other << 1), m.newline);
            const other_starts = m.other & ~(m.other << 1) & ~(m.blank << 1);
            const word_starts = m.letter & ~(m.letter << 1) & ~((m.space & ~m.newline) << 1) &
                ~shared.afterSingle(ascii, m, other_starts);
            var bits = word_starts | other_starts | shared.numbers(m.number, numbers_max) |
                shared.spaces(m, taken, 0);
            var candidates = m.apostrophe & other_starts & (m.letter >> 1);
            while (candidates != 0) : (candidates &= candidates - 1) {
                const at: u6 = @intCast(@ctz(candidates));
                bits = contractions.split(bits, text, at, .insensitive);
            }
            return bits;
        }

        /// All starts are certain in this family.
        pub inline fn unclear(_: *const Masks) u64 {
            return 0;
        }

        /// Whether a character other than a letter can begin a word.
        pub inline fn mayPrecedeWord(first: u8, class: unicode.Class) bool {
            // An apostrophe may begin a contraction.
            return first != '\'' and runs.isPrefix(class);
        }

        /// Returns the letters that do not end a word.
        pub inline fn inWord(m: *const Masks, _: [*]const u8, _: u21) u64 {
            return m.letter;
        }

        /// Any other character ends a word.
        pub inline fn maybeInWord(_: *const Masks) u64 {
            return 0;
        }
    };
}
