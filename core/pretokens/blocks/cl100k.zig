//! Masks → starts of pretokens of cl100k's family; the patterns are in ../schemes.zig.
//!
//! Where the text ends in white space, no start there is certain: the scalar scanner knows whether
//! the scheme has `\s++$`.

const unicode = @import("../../unicode.zig");
const runs = @import("../runs.zig");
const masks_ = @import("masks.zig");
const Masks = masks_.Masks;
const contractions = @import("contractions.zig");
const shared = @import("shared.zig");

pub fn Scheme(comptime numbers_max: u2, comptime has_marks: bool) type {
    return struct {
        /// With case, marks behind letters are letters, and any other mark ends the block.
        pub const letters: masks_.Letters = if (has_marks) .cased else .plain;

        /// A bit where a pretoken starts; the first byte of the block starts one.
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

        /// Every start is clear in this family.
        pub inline fn unclear(_: *const Masks) u64 {
            return 0;
        }

        /// Whether a character can be the first of a word without being a letter.
        pub inline fn mayPrecedeWord(first: u8, class: unicode.Class) bool {
            // What is behind an apostrophe may be a contraction.
            return first != '\'' and runs.isPrefix(class);
        }

        /// The letters that do not end a word.
        pub inline fn inWord(m: *const Masks, _: [*]const u8, _: u21) u64 {
            return m.letter;
        }

        /// What is no letter always ends a word.
        pub inline fn maybeInWord(_: *const Masks) u64 {
            return 0;
        }
    };
}
