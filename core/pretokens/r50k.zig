//! Text → pretokens of GPT-2, r50k_base, p50k_base and p50k_edit, and of Command R and StarCoder.
//!
//!     '(?:[sdmt]|ll|ve|re)| ?\p{L}++| ?\p{N}++| ?[^\s\p{L}\p{N}]++|\s++$|\s+(?!\S)|\s
//!
//! Command R and StarCoder split off each digit first, and then apply the pattern between digits.

const runs = @import("runs.zig");
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
    };
}
