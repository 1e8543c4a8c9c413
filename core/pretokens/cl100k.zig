//! Text → pretokens of cl100k_base.
//!
//!     '(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+
//!     |\s++$|\s*[\r\n]|\s+(?!\S)|\s

const runs = @import("runs.zig");

/// Where the pretoken that starts at `start` ends; `start` is below `text.len`.
pub inline fn next(text: []const u8, start: usize) usize {
    const contraction = runs.contractionLen(text, start, .insensitive);
    if (contraction != 0) return start + contraction;
    const first = runs.step(text, start);
    if (first.class.letter) return runs.runEnd(text, first.end, runs.isLetter);
    if (first.class.number) return runs.threeNumbersEnd(text, start);
    if (!first.class.newline and first.end < text.len) {
        const second = runs.step(text, first.end);
        if (second.class.letter) return runs.runEnd(text, second.end, runs.isLetter);
        if (text[start] == ' ' and runs.isOther(second.class)) return otherEnd(text, second.end);
    }
    if (!first.class.space) return otherEnd(text, first.end);
    const space = runs.Space.at(text, start);
    if (space.end == text.len) return space.end;
    if (space.newline_end != 0) return space.newline_end;
    return space.endBeforeText(text, start);
}

fn otherEnd(text: []const u8, index: usize) usize {
    var end = runs.runEnd(text, index, runs.isOther);
    while (end < text.len and (text[end] == '\r' or text[end] == '\n')) end += 1;
    return end;
}
