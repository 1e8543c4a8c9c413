//! Text → pretokens of cl100k_base, Llama 3, Qwen and others. The patterns are in schemes.zig.

const runs = @import("runs.zig");
const Options = @import("schemes.zig").Cl100k;

pub fn Scanner(comptime options: Options) type {
    return struct {
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
