//! Masks → starts of pretokens of GPT-2's family. The pattern is in ../schemes.zig.

const Masks = @import("masks.zig").Masks;
const unicode = @import("../../unicode.zig");
const contractions = @import("contractions.zig");
const Options = @import("../schemes.zig").R50k;

pub fn Scheme(comptime options: Options) type {
    return struct {
        pub const letters = .plain;

        /// Returns a bit for each start of a pretoken. The first byte of the block is one.
        pub inline fn starts(comptime _: bool, text: [*]const u8, m: *const Masks) u64 {
            const numbers = if (options.splits_digits) 0 else m.number & ~(m.number << 1);
            const words = (m.letter & ~(m.letter << 1)) | numbers | (m.other & ~(m.other << 1));
            // The last character of a run of whitespace belongs to the next pretoken if it is a
            // space.
            const space_starts = m.space & ~(m.space << 1);
            const digits: u64 = if (options.splits_digits) m.number else 0;
            const space_lasts = m.space & ~(m.space >> 1) & ~(digits >> 1);
            var bits = (words & ~(m.blank << 1)) | digits | space_starts | space_lasts;
            const other_starts = m.other & ~(m.other << 1) & ~(m.blank << 1);
            var candidates = m.apostrophe & other_starts & (m.letter >> 1);
            while (candidates != 0) : (candidates &= candidates - 1) {
                const at: u6 = @intCast(@ctz(candidates));
                bits = contractions.split(bits, text, at, .sensitive);
            }
            return bits;
        }

        /// All starts are certain here.
        pub inline fn unclear(_: *const Masks) u64 {
            return 0;
        }

        /// Whether a character other than a letter can begin a word.
        pub inline fn mayPrecedeWord(first: u8, _: unicode.Class) bool {
            return first == ' ';
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
