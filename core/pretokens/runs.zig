//! Text → runs of characters: the code that the hand-written scanners share.

const std = @import("std");
const sets = @import("sets.zig");
const unicode = @import("../unicode.zig");

pub const Class = unicode.Class;
pub const Known = @import("known.zig").Known;
pub const Kind = @import("known.zig").Kind;

/// The character at an index, and the offset of the next one.
pub const Step = struct { class: Class, code_point: u21, end: usize };

const ascii_classes = blk: {
    var classes: [128]Class = undefined;
    for (&classes, 0..) |*class, byte| class.* = unicode.class(byte);
    break :blk classes;
};

pub inline fn step(text: []const u8, index: usize) Step {
    const byte = text[index];
    if (byte < 0x80) {
        return .{ .class = ascii_classes[byte], .code_point = byte, .end = index + 1 };
    }
    const char = unicode.decode(text, index);
    return .{
        .class = unicode.class(char.code_point),
        .code_point = char.code_point,
        .end = index + char.len,
    };
}

/// [^\s\p{L}\p{N}]
pub fn isOther(class: Class) bool {
    return !class.space and !class.letter and !class.number;
}
/// [^\r\n\p{L}\p{N}]: a character that may precede a word.
pub fn isPrefix(class: Class) bool {
    return !class.newline and !class.letter and !class.number;
}

/// [一-龥぀-ゟ゠-ヿ], which DeepSeek splits off.
pub inline fn isHan(code_point: u21) bool {
    return code_point -% 0x4E00 <= 0x9FA5 - 0x4E00 or code_point -% 0x3040 < 0xC0;
}

/// \p{N} of Unicode 17, which has a few more characters than the tables of Unicode 16. Hugging
/// Face's Digits uses Rust's definition, which is the former.
pub inline fn isDigit(char: Step) bool {
    return char.class.number or unicode.isNumberOf17(char.code_point);
}
/// [^\s\p{L}\p{M}\p{N}\p{P}\p{S}]
pub fn isRest(class: Class) bool {
    return isOther(class) and !class.mark and !class.symbol;
}

pub inline fn is(comptime kind: Kind, char: Step) bool {
    const class = char.class;
    return switch (kind) {
        .other => isOther(class),
        .marked => class.letter or class.mark,
        .unmarked => isOther(class) and !class.mark,
        .digit => isDigit(char),
        .undigit => isOther(class) and !isDigit(char),
        .point => sets.Punctuation.has(char.code_point),
        .unpoint => isOther(class) and !sets.Punctuation.has(char.code_point),
        .latin => class.letter and char.code_point < 0x80,
        .plain_word => (class.letter or class.mark) and !isHan(char.code_point),
        .plain_symbol => class.symbol and !isHan(char.code_point),
        .plain_rest => isRest(class) and !isHan(char.code_point),
        .han_word => (class.letter or class.mark) and isHan(char.code_point),
        .han_symbol => class.symbol and isHan(char.code_point),
        .han_rest => isRest(class) and isHan(char.code_point),
        else => @field(class, @tagName(kind)),
    };
}

/// Returns the end of the run of characters of a kind, or `index` if it is empty. For a growing
/// text, `known` contains the runs of earlier scans.
pub inline fn runEnd(
    text: []const u8,
    index: usize,
    comptime kind: Kind,
    known: ?*Known,
) usize {
    if (known) |runs| return runs.scan(text, index, kind).end;
    var end = index;
    while (end < text.len) {
        const next = step(text, end);
        if (!is(kind, next)) break;
        end = next.end;
    }
    return end;
}

/// Returns the end of at most `count_max` numbers: \p{N}{1,3}, or fewer.
pub fn numbersEnd(text: []const u8, index: usize, count_max: u2) usize {
    var end = index;
    for (0..count_max) |_| {
        if (end == text.len) break;
        const next = step(text, end);
        if (!next.class.number) break;
        end = next.end;
    }
    return end;
}

/// A run of whitespace: its end, the start of its last character, and the end of its last newline
/// (0 if it has none).
pub const Space = struct {
    end: usize,
    last: usize,
    newline_end: usize,

    pub fn at(text: []const u8, index: usize, known: ?*Known) Space {
        if (known) |runs| {
            const found = runs.scan(text, index, .space);
            const is_empty = found.end == index;
            const last_len = if (is_empty) 0 else unicode.decodeBefore(text, found.end).len;
            return .{
                .end = found.end,
                .last = found.end - last_len,
                .newline_end = found.mark_end,
            };
        }
        var space: Space = .{ .end = index, .last = index, .newline_end = 0 };
        while (space.end < text.len) {
            const next = step(text, space.end);
            if (!next.class.space) break;
            space.last = space.end;
            space.end = next.end;
            if (next.class.newline) space.newline_end = next.end;
        }
        return space;
    }

    /// `\s+(?!\S)|\s`: the whole run at the end of the text, otherwise all but its last character,
    /// which belongs to the next pretoken. A single character is a pretoken.
    pub fn endBeforeText(space: Space, text: []const u8, start: usize) usize {
        return if (space.end == text.len or space.last == start) space.end else space.last;
    }
};

pub const Case = enum { sensitive, insensitive };

/// Returns the length of 's 't 'd 'm 'll 've 're at `index`, or 0. If case is ignored, ſ (U+017F)
/// is an s: the simple case folding of regex engines treats s, S and ſ as equal.
pub inline fn contractionLen(text: []const u8, index: usize, comptime case: Case) usize {
    const rest = text[index..];
    if (rest.len < 2 or rest[0] != '\'') return 0;
    switch (fold(rest[1], case)) {
        's', 't', 'd', 'm' => return 2,
        'l' => return if (rest.len > 2 and fold(rest[2], case) == 'l') 3 else 0,
        'v', 'r' => return if (rest.len > 2 and fold(rest[2], case) == 'e') 3 else 0,
        0xC5 => return if (case == .insensitive and rest.len > 2 and rest[2] == 0xBF) 3 else 0,
        else => return 0,
    }
}

inline fn fold(byte: u8, comptime case: Case) u8 {
    return if (case == .insensitive and byte < 0x80) byte | 0x20 else byte;
}

test "runs: contractions match with and without case" {
    const expectEqual = std.testing.expectEqual;
    try expectEqual(2, contractionLen("'s", 0, .sensitive));
    try expectEqual(0, contractionLen("'S", 0, .sensitive));
    try expectEqual(2, contractionLen("'S", 0, .insensitive));
    try expectEqual(3, contractionLen("x'LlY", 1, .insensitive));
    try expectEqual(3, contractionLen("'\u{17f}", 0, .insensitive));
    try expectEqual(0, contractionLen("'\u{17f}", 0, .sensitive));
    try expectEqual(0, contractionLen("'l", 0, .sensitive));
    try expectEqual(0, contractionLen("'", 0, .sensitive));
    // `| 0x20` must map only letters: a control character must not become one.
    try expectEqual(0, contractionLen("'\x13", 0, .insensitive));
}
