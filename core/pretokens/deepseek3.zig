//! Text → pretokens of DeepSeek V3 and R1, which split a text three times, each time within the
//! pieces of the previous split:
//!
//!     \p{N}{1,3}
//!     [一-龥぀-ゟ゠-ヿ]+
//!     [!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+
//!     | ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+
//!
//! Text that no pattern matches is a pretoken too. For the third pattern, a number ends the text,
//! as does the change between characters of the second pattern, called Han here, and all others.

const runs = @import("runs.zig");
const unicode = @import("../unicode.zig");

/// Returns the end of the pretoken at `start`, which must be below `text.len`.
pub inline fn next(text: []const u8, start: usize, known: ?*runs.Known) usize {
    const first = runs.step(text, start);
    if (first.class.number) return runs.numbersEnd(text, start, 3);
    if (runs.isHan(first.code_point)) return Piece(.han).next(text, start, first, known);
    return Piece(.plain).next(text, start, first, known);
}

fn Piece(comptime group: enum { plain, han }) type {
    return struct {
        const word: runs.Kind = if (group == .han) .han_word else .plain_word;
        const symbol: runs.Kind = if (group == .han) .han_symbol else .plain_symbol;
        const rest: runs.Kind = if (group == .han) .han_rest else .plain_rest;

        fn next(text: []const u8, start: usize, first: runs.Step, known: ?*runs.Known) usize {
            if (runs.is(word, first)) return runs.runEnd(text, first.end, word, known);
            const second = if (first.end < text.len) runs.step(text, first.end) else null;
            if (first.class.symbol) {
                if (second) |some| if (text[start] < 0x80 and runs.is(.latin, some)) {
                    return runs.runEnd(text, some.end, .latin, known);
                };
                return symbolsEnd(text, first.end, known);
            }
            if (second) |some| {
                const is_prefixed = !first.class.newline and runs.is(word, some);
                if (is_prefixed) return runs.runEnd(text, some.end, word, known);
                if (text[start] == ' ' and runs.is(symbol, some)) {
                    return symbolsEnd(text, some.end, known);
                }
            }
            if (!first.class.space) return restEnd(text, first.end, known);
            const space = runs.Space.at(text, start, known);
            if (space.newline_end != 0) return space.newline_end;
            if (isEdge(text, space.end)) return space.end;
            return space.endBeforeText(text, start);
        }

        fn symbolsEnd(text: []const u8, index: usize, known: ?*runs.Known) usize {
            const end = runs.runEnd(text, index, symbol, known);
            // Newlines are not Han.
            return if (group == .han) end else runs.runEnd(text, end, .newline, known);
        }

        /// Returns the end of a run of characters that begin no alternative. If a word follows, the
        /// last of them belongs to the word.
        fn restEnd(text: []const u8, index: usize, known: ?*runs.Known) usize {
            const end = runs.runEnd(text, index, rest, known);
            if (end == index or end == text.len) return end;
            if (!runs.is(word, runs.step(text, end))) return end;
            return end - unicode.decodeBefore(text, end).len;
        }
    };
}

/// Whether the piece with the whitespace before `index` ends there.
fn isEdge(text: []const u8, index: usize) bool {
    if (index == text.len) return true;
    const behind = runs.step(text, index);
    return behind.class.number or runs.isHan(behind.code_point);
}
