//! Text → pretokens of cl100k_base, Llama 3, Qwen and others. The patterns are in schemes.zig.
//!
//! In whitespace at the end of the text no start in a block is certain. The scalar scanner handles
//! it, depending on whether the pattern has `\s++$`.

const contractions = @import("blocks/contractions.zig");
const masks_ = @import("blocks/masks.zig");
const runs = @import("runs.zig");
const shared = @import("blocks/shared.zig");
const unicode = @import("../unicode.zig");
const Masks = masks_.Masks;
const Options = @import("schemes.zig").Cl100k;

pub fn Scanner(comptime options: Options) type {
    return struct {
        pub const Blocks = BlocksOf(options.numbers_max, options.has_marks);

        const word: runs.Kind = if (options.has_marks) .marked else .letter;
        const other: runs.Kind = if (options.has_marks) .unmarked else .other;

        /// Returns the end of the pretoken at `start`, which must be below `text.len`.
        pub inline fn next(text: []const u8, start: usize, known: ?*runs.Known) usize {
            const contraction = runs.contractionLen(text, start, .insensitive);
            if (contraction != 0) return start + contraction;
            const first = runs.step(text, start);
            if (runs.is(word, first)) return runs.runEnd(text, first.end, word, known);
            if (first.class.number) return runs.numbersEnd(text, start, options.numbers_max);
            if (!first.class.newline and first.end < text.len) {
                const second = runs.step(text, first.end);
                if (runs.is(word, second)) return runs.runEnd(text, second.end, word, known);
                const is_other = runs.is(other, second);
                if (text[start] == ' ' and is_other) return otherEnd(text, second.end, known);
            }
            if (!first.class.space) return otherEnd(text, first.end, known);
            const space = runs.Space.at(text, start, known);
            if (options.has_end and space.end == text.len) return space.end;
            if (space.newline_end != 0) return space.newline_end;
            return space.endBeforeText(text, start);
        }

        fn otherEnd(text: []const u8, index: usize, known: ?*runs.Known) usize {
            const end = runs.runEnd(text, index, other, known);
            return runs.runEnd(text, end, .newline, known);
        }
    };
}

/// Masks → starts of pretokens.
fn BlocksOf(comptime numbers_max: u2, comptime has_marks: bool) type {
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
