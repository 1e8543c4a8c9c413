//! Bytes → characters → classes.
//!
//! The pre-tokenizers need the character at an offset, and its class. Any bytes are text here. An
//! invalid sequence decodes as one U+FFFD for each "maximal subpart" (The Unicode Standard 16.0,
//! section 3.9, table 3-8), like in Python's `bytes.decode("utf-8", "replace")` and Rust's
//! `from_utf8_lossy`. So every pre-tokenizer sees the same characters as a reference that decodes
//! first.
//!
//! **Invariant**: forward decoding from 0 and `decodeBefore` agree on all character boundaries.

const std = @import("std");
const examples = @import("examples.zig").examples;
const vector = @import("platform.zig").vector;
const classes = @import("unicode/tables.zig").classes;
const words = @import("unicode/tables.zig").words;

pub const version = classes.version;
pub const replacement: u21 = 0xFFFD;

/// The properties that the patterns of common tokenizers distinguish, in the bit order of
/// unicode/generate.py.
pub const Class = packed struct(u8) {
    /// \p{L}
    letter: bool,
    /// \p{N}
    number: bool,
    /// \p{White_Space}, which is the meaning of \s in tiktoken's regex engine
    space: bool,
    /// \r or \n
    newline: bool,
    /// [\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]
    upper: bool,
    /// [\p{Ll}\p{Lm}\p{Lo}\p{M}]
    lower: bool,
    /// \p{M}
    mark: bool,
    /// [\p{P}\p{S}]
    symbol: bool,
};

/// Returns the class of a code point. `cp` must be at most 0x10FFFF.
pub inline fn class(cp: u21) Class {
    std.debug.assert(cp <= 0x10FFFF);
    const block: usize = classes.blocks[cp >> classes.shift];
    const low = cp & ((1 << classes.shift) - 1);
    return @bitCast(classes.flags[block << classes.shift | low]);
}

/// Whether a code point is a number in Unicode 17 but not in the tables: Tolong Siki digits, and
/// three small Chinese ones.
pub inline fn isNumberOf17(cp: u21) bool {
    return cp -% 0x11DE0 < 10 or cp -% 0x16FF4 < 3;
}

/// Whether a character matches \w.
pub fn isWord(cp: u21) bool {
    // Runs of \w begin at even indices of the table and end before the code points at odd ones.
    return std.sort.upperBound(u32, words.edges, @as(u32, cp), compare) % 2 == 1;
}

fn compare(a: u32, b: u32) std.math.Order {
    return std.math.order(a, b);
}

/// One character of a text: `len` bytes, 1 to 4.
pub const Char = struct { code_point: u21, len: u3 };

/// Returns the character at `index`, which must be less than `text.len`.
pub inline fn decode(text: []const u8, index: usize) Char {
    const first = text[index];
    if (first < 0x80) return .{ .code_point = first, .len = 1 };
    // Fast path for lead bytes that accept any continuation bytes, which are nearly all.
    if (first >= 0xE1 and first <= 0xEF and first != 0xED and text.len - index >= 3) {
        const second = text[index + 1] ^ 0x80;
        const third = text[index + 2] ^ 0x80;
        if (second | third < 0x40) {
            const high = @as(u32, first & 0x0F) << 12;
            return .{ .code_point = @intCast(high | @as(u32, second) << 6 | third), .len = 3 };
        }
    }
    return decodeMultibyte(text, index);
}

fn decodeMultibyte(text: []const u8, index: usize) Char {
    const rest = text[index..];
    const first = rest[0];
    // After some lead bytes the range of the first continuation byte is narrower, to exclude
    // overlong encodings, surrogates, and code points above U+10FFFF.
    const count: u3, const low: u8, const high: u8 = switch (first) {
        0xC2...0xDF => .{ 2, 0x80, 0xBF },
        0xE0 => .{ 3, 0xA0, 0xBF },
        0xE1...0xEC, 0xEE...0xEF => .{ 3, 0x80, 0xBF },
        0xED => .{ 3, 0x80, 0x9F },
        0xF0 => .{ 4, 0x90, 0xBF },
        0xF1...0xF3 => .{ 4, 0x80, 0xBF },
        0xF4 => .{ 4, 0x80, 0x8F },
        else => return .{ .code_point = replacement, .len = 1 },
    };
    if (rest.len < 2 or rest[1] < low or rest[1] > high) {
        return .{ .code_point = replacement, .len = 1 };
    }
    var code_point: u21 = first & (@as(u8, 0x7F) >> count);
    code_point = code_point << 6 | (rest[1] & 0x3F);
    var len: u3 = 2;
    while (len < count) : (len += 1) {
        if (len >= rest.len or rest[len] & 0xC0 != 0x80) {
            return .{ .code_point = replacement, .len = len };
        }
        code_point = code_point << 6 | (rest[len] & 0x3F);
    }
    return .{ .code_point = code_point, .len = count };
}

/// Returns the character that ends at `index`, which must be more than 0 and at most `text.len`.
/// `index` must be a boundary of forward decoding. Bytes at and after it do not matter.
pub fn decodeBefore(text: []const u8, index: usize) Char {
    const before = text[0..index];
    const last = before[index - 1];
    if (last < 0x80) return .{ .code_point = last, .len = 1 };
    // A character has at most 4 bytes, and only its first byte is not a continuation byte. The
    // nearest such byte starts it, if decoding from there ends exactly at `index`. Otherwise the
    // byte is a stray continuation byte.
    var start = index - 1;
    const limit = index -| 4;
    while (start > limit and before[start] & 0xC0 == 0x80) start -= 1;
    const char = decode(before, start);
    if (start + char.len == index) return char;
    return .{ .code_point = replacement, .len = 1 };
}

/// Returns the number of characters that begin in a text.
pub fn countCharacters(text: []const u8) usize {
    const Bytes = @Vector(16, i8);
    var count: usize = 0;
    var at: usize = 0;
    while (text.len - at >= 16) : (at += 16) {
        const bytes: Bytes = @bitCast(text[at..][0..16].*);
        // As signed numbers, continuation bytes are those below -64.
        count += @popCount(vector.bits(bytes >= @as(Bytes, @splat(-64))));
    }
    for (text[at..]) |byte| count += @intFromBool(byte & 0xC0 != 0x80);
    return count;
}

/// Whether a character starts, or the text ends, at `index` when decoded forwards.
pub fn isBoundary(text: []const u8, index: usize) bool {
    if (index == 0 or index >= text.len or text[index] & 0xC0 != 0x80) return true;
    // A character that covers this byte starts at most three bytes before it.
    var start = index;
    while (start > 0 and index - start < 3) {
        start -= 1;
        if (text[start] & 0xC0 != 0x80) return start + decode(text, start).len <= index;
    }
    return true;
}

test "unicode: every code point decodes as std.unicode encodes it, both ways" {
    var code_point: u21 = 0;
    while (code_point <= 0x10FFFF) : (code_point += 1) {
        if (code_point >= 0xD800 and code_point <= 0xDFFF) continue;
        var buffer: [4]u8 = undefined;
        const len = try std.unicode.utf8Encode(code_point, &buffer);
        const forward = decode(buffer[0..len], 0);
        const backward = decodeBefore(buffer[0..len], len);
        if (forward.code_point != code_point or forward.len != len or
            backward.code_point != code_point or backward.len != len)
        {
            std.debug.print("U+{X}\n", .{code_point});
            return error.TestUnexpectedResult;
        }
        // The classes of an unassigned code point are false, not out of bounds.
        _ = class(code_point);
    }
}

/// The reference implementation: the longest prefix that some valid encoding starts with, found by
/// trying.
fn decodeSlowly(text: []const u8) Char {
    for (1..5) |len| {
        if (len > text.len) break;
        if (std.unicode.utf8ValidateSlice(text[0..len])) {
            return .{
                .code_point = std.unicode.utf8Decode(text[0..len]) catch unreachable,
                .len = @intCast(len),
            };
        }
    }
    var len: u3 = @intCast(@min(3, text.len));
    while (len > 1) : (len -= 1) {
        if (startsSomeCharacter(text[0..len])) break;
    }
    return .{ .code_point = replacement, .len = len };
}

fn startsSomeCharacter(prefix: []const u8) bool {
    // 0x80, 0x90, 0xA0 and so on reach every class of continuation byte.
    var buffer: [4]u8 = undefined;
    @memcpy(buffer[0..prefix.len], prefix);
    for (prefix.len + 1..5) |len| {
        for (0..4) |step| {
            for (buffer[prefix.len..len]) |*byte| byte.* = @intCast(0x80 + 0x10 * step);
            if (std.unicode.utf8ValidateSlice(buffer[0..len]) and
                std.unicode.utf8ByteSequenceLength(buffer[0]) catch 0 == len) return true;
        }
    }
    return false;
}

test "unicode: invalid sequences decode like the reference, in both directions" {
    var prng = std.Random.DefaultPrng.init(16);
    const random = prng.random();
    // Bytes at the limits of every case of the decoder.
    const bytes = "a\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF" ++
        "\xF0\xF1\xF3\xF4\xF5\xFF";
    var buffer: [12]u8 = undefined;
    for (0..examples(200_000)) |_| {
        const text = buffer[0..random.intRangeAtMost(usize, 1, buffer.len)];
        for (text) |*byte| byte.* = bytes[random.uintLessThan(usize, bytes.len)];
        var index: usize = 0;
        while (index < text.len) {
            const char = decode(text, index);
            try std.testing.expectEqual(decodeSlowly(text[index..]), char);
            try std.testing.expectEqual(char, decodeBefore(text, index + char.len));
            index += char.len;
        }
    }
}

test "unicode: classes of well-known characters" {
    const Expected = struct { u21, []const u8 };
    const cases = [_]Expected{
        .{ 'a', "letter lower" },
        .{ 'Z', "letter upper" },
        .{ 0x1C5, "letter upper" }, // titlecase
        .{ 0x2B0, "letter upper lower" }, // modifier
        .{ 0x6F22, "letter upper lower" }, // Han
        .{ 0x0301, "upper lower mark" },
        .{ 0x903, "upper lower mark" },
        .{ '7', "number" },
        .{ 0xBD, "number" }, // ½
        .{ 0x2163, "number" }, // Ⅳ
        .{ ' ', "space" },
        .{ '\t', "space" },
        .{ '\n', "space newline" },
        .{ '\r', "space newline" },
        .{ 0x85, "space" },
        .{ 0x3000, "space" },
        .{ 0x200B, "" }, // zero width space is not White_Space
        .{ 0x1C, "" }, // but str.isspace() is true
        .{ '$', "symbol" },
        .{ '_', "symbol" },
        .{ 0x1C89, "letter upper" }, // new in Unicode 16
        .{ 0x10FFFF, "" },
    };
    for (cases) |case| {
        const got = class(case[0]);
        inline for (@typeInfo(Class).@"struct".fields) |field| {
            const wanted = std.mem.indexOf(u8, case[1], field.name) != null;
            try std.testing.expectEqual(wanted, @field(got, field.name));
        }
    }
}

test "unicode: \\w has letters, marks, digits and connectors" {
    for ([_]u21{ '0', 'a', '_', 0xE9, 0x301, 0x4E00, 0x200D, 0x2160, 0xE01EF }) |code_point| {
        try std.testing.expect(isWord(code_point));
    }
    for ([_]u21{ 0, ' ', '.', '-', 0xD7, 0x2028, 0xFFFD, 0x10FFFF }) |code_point| {
        try std.testing.expect(!isWord(code_point));
    }
}
