//! Text → pretokens of cl100k_base.
//!
//!     '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+
//!     |\s++$|\s*[\r\n]|\s+(?!\S)|\s

const runs = @import("runs.zig");

/// Where the pretoken that starts at `start` ends; `start` is below `text.len`.
pub inline fn next(text: []const u8, start: usize, known: ?*runs.Known) usize {
    const contraction = runs.contractionLen(text, start, .insensitive);
    if (contraction != 0) return start + contraction;
    const first = runs.step(text, start);
    if (first.class.letter) return runs.runEnd(text, first.end, .letter, known);
    if (first.class.number) return runs.threeNumbersEnd(text, start);
    if (!first.class.newline and first.end < text.len) {
        const second = runs.step(text, first.end);
        if (second.class.letter) return runs.runEnd(text, second.end, .letter, known);
        const is_other = runs.isOther(second.class);
        if (text[start] == ' ' and is_other) return otherEnd(text, second.end, known);
    }
    if (!first.class.space) return otherEnd(text, first.end, known);
    const space = runs.Space.at(text, start, known);
    if (space.end == text.len) return space.end;
    if (space.newline_end != 0) return space.newline_end;
    return space.endBeforeText(text, start);
}

fn otherEnd(text: []const u8, index: usize, known: ?*runs.Known) usize {
    const end = runs.runEnd(text, index, .other, known);
    return runs.runEnd(text, end, .newline, known);
}
