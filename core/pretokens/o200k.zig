//! Text → pretokens of o200k_base, o200k_harmony, Llama 4 and tekken. The patterns are in
//! schemes.zig, where [U] = [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}] and [L] = [\p{Ll}\p{Lm}\p{Lo}\p{M}].
//!
//! The difficulty is characters in both sets (other letters, modifiers, marks): the greedy [U]*
//! gives back one of them if no character only in [L] follows.

const runs = @import("runs.zig");
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
