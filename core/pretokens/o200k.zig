//! Text → pretokens of o200k_base, o200k_harmony, Llama 4 and tekken. The patterns are in
//! schemes.zig, where [U] = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [L] = [\p{Ll}\p{Lm}\p{Lo}\p{M}].
//!
//! The difficulty is characters in both sets (other letters, modifiers, marks): the greedy [U]*
//! gives back one of them if no character only in [L] follows.
//!
//! In a block, a word ends where a letter only in [L] precedes one only in [U]. Letters in both
//! sets have no effect unless a letter only in [U] follows them. In that case the block ends.

const contractions = @import("blocks/contractions.zig");
const masks_ = @import("blocks/masks.zig");
const runs = @import("runs.zig");
const shared = @import("blocks/shared.zig");
const unicode = @import("../unicode.zig");
const Masks = masks_.Masks;
const Options = @import("schemes.zig").O200k;

pub fn Scanner(comptime options: Options) type {
    return struct {
        /// Returns the end of the pretoken at `start`, which must be below `text.len`.
        pub inline fn next(text: []const u8, start: usize, known: ?*runs.Known) usize {
            const first = runs.step(text, start);
            if (first.class.number) return runs.numbersEnd(text, start, options.numbers_max);
            const word = wordEnd(text, start, first, known);
            if (word != 0 and !options.has_contractions) return word;
            if (word != 0) return word + runs.contractionLen(text, word, .insensitive);
            if (!first.class.space) return otherEnd(text, first.end, known);
            if (text[start] == ' ' and first.end < text.len) {
                const second = runs.step(text, first.end);
                if (runs.isOther(second.class)) return otherEnd(text, second.end, known);
            }
            const space = runs.Space.at(text, start, known);
            if (space.newline_end != 0) return space.newline_end;
            return space.endBeforeText(text, start);
        }

        /// Masks → starts of pretokens.
        pub const Blocks = struct {
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
    };
}

/// Tries the two word alternatives in order, each first with and then without a prefix. Returns 0
/// if there is no word.
inline fn wordEnd(
    text: []const u8,
    start: usize,
    first: runs.Step,
    known: ?*runs.Known,
) usize {
    const prefixed = runs.isPrefix(first.class) and first.end < text.len;
    var upper: usize = 0;
    if (prefixed) {
        const second = runs.step(text, first.end);
        if (second.class.upper or second.class.lower) {
            const run: Upper = .at(text, first.end, known);
            const end = run.lowerEnd(text, known);
            if (end != 0) return end;
            upper = run.end;
        }
    }
    if (first.class.upper or first.class.lower) {
        const run: Upper = .at(text, start, known);
        const end = run.lowerEnd(text, known);
        if (end != 0) return end;
        if (upper == 0) upper = run.end;
    }
    // Without any [L], the second alternative takes the run of [U].
    return upper;
}

/// The match of `[U]*`: its end, and the end of its last character that is also in [L] (0 if there
/// is none).
const Upper = struct {
    end: usize,
    last_both_end: usize,

    inline fn at(text: []const u8, start: usize, known: ?*runs.Known) Upper {
        if (known) |runs_| {
            const found = runs_.scan(text, start, .upper);
            return .{ .end = found.end, .last_both_end = found.mark_end };
        }
        var upper: Upper = .{ .end = start, .last_both_end = 0 };
        while (upper.end < text.len) {
            const next_ = runs.step(text, upper.end);
            if (!next_.class.upper) break;
            upper.end = next_.end;
            if (next_.class.lower) upper.last_both_end = next_.end;
        }
        return upper;
    }

    /// Returns the end of `[L]+` after `[U]*` took as much as possible and gave back as much as
    /// necessary; 0 if it cannot match.
    inline fn lowerEnd(upper: Upper, text: []const u8, known: ?*runs.Known) usize {
        const end = runs.runEnd(text, upper.end, .lower, known);
        return if (end != upper.end) end else upper.last_both_end;
    }
};

fn otherEnd(text: []const u8, index: usize, known: ?*runs.Known) usize {
    var end = runs.runEnd(text, index, .other, known);
    while (true) : (end += 1) {
        end = runs.runEnd(text, end, .newline, known);
        if (end == text.len or text[end] != '/') return end;
    }
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
