//! Text → pretokens of GPT-2, r50k_base, p50k_base and p50k_edit, and of Command R and StarCoder.
//!
//!     '(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s
//!
//! Command R and StarCoder split off each digit first, and then apply the pattern between digits.

const contractions = @import("blocks/contractions.zig");
const runs = @import("runs.zig");
const unicode = @import("../unicode.zig");
const Masks = @import("blocks/masks.zig").Masks;
const Options = @import("schemes.zig").R50k;

pub fn Scanner(comptime options: Options) type {
    return struct {
        const other: runs.Kind = if (options.splits_digits) .undigit else .other;

        /// Returns the end of the pretoken at `start`, which must be below `text.len`.
        pub inline fn next(text: []const u8, start: usize, known: ?*runs.Known) usize {
            const contraction = runs.contractionLen(text, start, .sensitive);
            if (contraction != 0) return start + contraction;
            const body = start + @intFromBool(text[start] == ' ');
            if (body < text.len) {
                const first = runs.step(text, body);
                if (first.class.letter) return runs.runEnd(text, first.end, .letter, known);
                if (options.splits_digits and runs.is(.digit, first)) {
                    return if (body == start) first.end else body;
                }
                if (first.class.number) return runs.runEnd(text, first.end, .number, known);
                if (!first.class.space) return runs.runEnd(text, first.end, other, known);
            }
            const space = runs.Space.at(text, start, known);
            if (options.splits_digits and space.end < text.len) {
                if (runs.is(.digit, runs.step(text, space.end))) return space.end;
            }
            return space.endBeforeText(text, start);
        }

        /// Masks → starts of pretokens.
        pub const Blocks = struct {
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
    };
}
