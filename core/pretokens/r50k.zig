//! Text → pretokens of GPT-2, r50k_base, p50k_base and p50k_edit.
//!
//!     '(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s

const runs = @import("runs.zig");

/// Where the pretoken that starts at `start` ends; `start` is below `text.len`.
pub inline fn next(text: []const u8, start: usize, known: ?*runs.Known) usize {
    const contraction = runs.contractionLen(text, start, .sensitive);
    if (contraction != 0) return start + contraction;
    const body = start + @intFromBool(text[start] == ' ');
    if (body < text.len) {
        const first = runs.step(text, body);
        if (first.class.letter) return runs.runEnd(text, first.end, .letter, known);
        if (first.class.number) return runs.runEnd(text, first.end, .number, known);
        if (!first.class.space) return runs.runEnd(text, first.end, .other, known);
    }
    return runs.Space.at(text, start, known).endBeforeText(text, start);
}
