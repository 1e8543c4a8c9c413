//! Text → the words of GPT-2's pattern → ids.
//!
//! A word is a contraction, or letters, digits or other signs with at most one space before them,
//! or whitespace. The last character of longer whitespace belongs to the word after it.
//!
//! A scanner has `wordEnd(text, start)`, the end of the word that begins at `start`. `ByKinds`
//! makes it from two functions: `kind(text, at)` is the kind of a character, and `runEnd(text, at,
//! kind)` the end of the characters of one kind.

const std = @import("std");
const unicode = @import("unicode");

pub const Kind = enum { letter, number, space, sign };

/// Encodes each word with `merge(context, word, out)`, which returns its number of ids.
pub inline fn encode(
    comptime Scanner: type,
    comptime merge: anytype,
    context: anytype,
    text: []const u8,
    out: []u32,
) !usize {
    var start: usize = 0;
    var count: usize = 0;
    while (start < text.len) {
        const end = Scanner.wordEnd(text, start);
        count += try merge(context, text, start, end, out[count..]);
        start = end;
    }
    return count;
}

pub fn ByKinds(comptime Kinds: type) type {
    return struct {
        pub inline fn wordEnd(text: []const u8, start: usize) usize {
            const kind = Kinds.kind(text, start);
            if (text[start] == '\'') {
                if (contraction(text[start + 1 ..])) |len| return start + 1 + len;
            }
            if (kind != .space) return Kinds.runEnd(text, start, kind);
            const end = Kinds.runEnd(text, start, .space);
            if (end == text.len) return end;
            const last = lastCharacter(text, end);
            if (last > start) return last;
            return if (text[start] == ' ') Kinds.runEnd(text, end, Kinds.kind(text, end)) else end;
        }
    };
}

/// Returns the number of letters of a contraction such as 's or 're.
pub inline fn contraction(text: []const u8) ?usize {
    if (text.len >= 1) switch (text[0]) {
        's', 't', 'm', 'd' => return 1,
        else => {},
    };
    if (text.len >= 2) switch (@as(u16, text[0]) << 8 | text[1]) {
        'r' << 8 | 'e', 'v' << 8 | 'e', 'l' << 8 | 'l' => return 2,
        else => {},
    };
    return null;
}

/// Returns the start of the character that ends at `end`.
inline fn lastCharacter(text: []const u8, end: usize) usize {
    var start = end - 1;
    while (text[start] & 0xC0 == 0x80) start -= 1;
    return start;
}

pub const Scalar = ByKinds(ScalarKinds);

/// Decodes one character after the other, and looks up its class.
pub const ScalarKinds = struct {
    pub fn kind(text: []const u8, at: usize) Kind {
        return kindOf(unicode.decode(text, at).code_point);
    }

    pub fn runEnd(text: []const u8, start: usize, wanted: Kind) usize {
        var end = start;
        while (end < text.len) {
            const character = unicode.decode(text, end);
            if (kindOf(character.code_point) != wanted) break;
            end += character.len;
        }
        return end;
    }
};

pub fn kindOf(code_point: u21) Kind {
    const class = unicode.class(code_point);
    if (class.letter) return .letter;
    if (class.number) return .number;
    return if (class.space) .space else .sign;
}
