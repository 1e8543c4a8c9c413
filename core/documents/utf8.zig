//! Documents → those that are not UTF-8, by the rules of Python's strict decoder.
//!
//! 64 bytes are checked together. An error in a byte and the one before it is a bit that three
//! tables have in common. A third or fourth byte must be where its lead byte requires it.
//! Source: Keiser and Lemire, "Validating UTF-8 in less than one instruction per byte", 2020.

const std = @import("std");
const platform = @import("../platform.zig");
const vector = platform.vector;
const examples = @import("../examples.zig").examples;
const Allocator = std.mem.Allocator;
const Bytes = vector.Bytes;
const Table = vector.Table;
const load = vector.load;
const lookup = vector.lookup;
const splat = vector.splat;

/// Returns the indices of the documents that are not UTF-8, owned by the caller.
pub fn problems(gpa: Allocator, documents: []const []const u8) Allocator.Error![]i64 {
    var found: std.ArrayList(i64) = .empty;
    errdefer found.deinit(gpa);
    for (documents, 0..) |document, index| {
        if (!isValid(document)) try found.append(gpa, @intCast(index));
    }
    return found.toOwnedSlice(gpa);
}

pub fn isValid(text: []const u8) bool {
    if (text.len < vector.len + reach) return std.unicode.utf8ValidateSlice(text);
    if (!isFirstValid(text)) return false;
    var at: usize = vector.len;
    while (at + vector.len < text.len) : (at += vector.len) {
        if (!isBlockValid(text, at)) return false;
    }
    // The last block overlaps the previous one.
    return isBlockValid(text, text.len - vector.len) and isClosed(text, text.len);
}

/// Number of bytes before a block that are checked with it.
const reach = 3;

inline fn isBlockValid(text: []const u8, at: usize) bool {
    const block = load(text.ptr + at);
    if (vector.bits(block >= splat(0x80)) == 0) return isClosed(text, at);
    return !hasErrors(text.ptr + at, block);
}

/// Checks the first block, which has no bytes before it.
inline fn isFirstValid(text: []const u8) bool {
    const block = load(text.ptr);
    if (vector.bits(block >= splat(0x80)) == 0) return true;
    var padded: [reach + vector.len]u8 = @splat(0);
    @memcpy(padded[reach..], text[0..vector.len]);
    return !hasErrors(padded[reach..], block);
}

/// Whether no character continues at an offset of at least 3.
inline fn isClosed(text: []const u8, at: usize) bool {
    return text[at - 1] < 0xC0 and text[at - 2] < 0xE0 and text[at - 3] < 0xF0;
}

/// Possible errors of two bytes.
const too_short: u8 = 1 << 0;
const too_long: u8 = 1 << 1;
const overlong_3: u8 = 1 << 2;
const too_large: u8 = 1 << 3;
const surrogate: u8 = 1 << 4;
const overlong_2: u8 = 1 << 5;
const too_large_1000: u8 = 1 << 6;
const overlong_4: u8 = 1 << 6;
/// Not an error where a third or fourth byte is required; there, its absence is one.
const two_tails: u8 = 1 << 7;
const carry = too_short | too_long | two_tails;

const first_high: Table = @as([8]u8, @splat(too_long)) ++ @as([4]u8, @splat(two_tails)) ++ .{
    too_short | overlong_2,
    too_short,
    too_short | overlong_3 | surrogate,
    too_short | too_large | too_large_1000 | overlong_4,
};
const first_low: Table = .{
    carry | overlong_3 | overlong_2 | overlong_4,
    carry | overlong_2,
    carry,
    carry,
    carry | too_large,
} ++ @as([8]u8, @splat(carry | too_large | too_large_1000)) ++ .{
    carry | too_large | too_large_1000 | surrogate,
    carry | too_large | too_large_1000,
    carry | too_large | too_large_1000,
};
const tail = too_long | overlong_2 | two_tails;
const second_high: Table = @as([8]u8, @splat(too_short)) ++ .{
    tail | overlong_3 | too_large_1000 | overlong_4,
    tail | overlong_3 | too_large,
    tail | surrogate | too_large,
    tail | surrogate | too_large,
} ++ @as([4]u8, @splat(too_short));

/// Whether a block, with the three bytes before it, is invalid. A character may continue after it.
inline fn hasErrors(text: [*]const u8, block: Bytes) bool {
    const before = load(text - 1);
    const low: Bytes = splat(0x0F);
    const four: @Vector(vector.len, u3) = @splat(4);
    const found = lookup(first_high, before >> four) & lookup(first_low, before & low) &
        lookup(second_high, block >> four);
    const is_third = load(text - 2) -| splat(0xE0 - 0x80);
    const is_fourth = load(text - 3) -| splat(0xF0 - 0x80);
    const wrong = ((is_third | is_fourth) & splat(0x80)) ^ found;
    return vector.bits(wrong != splat(0)) != 0;
}

test "utf8: block validation equals the standard library" {
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const rng = random.random();
    const good = [_][]const u8{
        "a",            "bc",
        "é",
        "中",
        "🌾",
        "\xED\x9F\xBF", "\xF4\x8F\xBF\xBF",
        "\xDF\xBF",     "\x00",
    };
    const bad = [_][]const u8{
        "\xC3",             "\xE4\xB8",         "\xF0\x9F",     "\x80",         "\xBF",
        "\xC0\x80",         "\xE0\x80\x80",     "\xED\xA0\x80", "\xF8",         "\xFF",
        "\xF4\x90\x80\x80", "\xF0\x8F\xBF\xBF", "\xC1\xBF",     "\xE0\x9F\xBF", "\xF0\x9F\x8C",
    };
    var text: [400]u8 = undefined;
    for (0..examples(20_000)) |_| {
        // Mostly valid characters: otherwise no text would pass its first block.
        const bad_of_400 = rng.uintLessThan(usize, 4);
        var len: usize = 0;
        while (len < 390) {
            const is_bad = rng.uintLessThan(usize, 400) < bad_of_400;
            const pieces: []const []const u8 = if (is_bad) &bad else &good;
            const piece = pieces[rng.uintLessThan(usize, pieces.len)];
            @memcpy(text[len..][0..piece.len], piece);
            len += piece.len;
        }
        const some = text[0..rng.uintAtMost(usize, len)];
        try std.testing.expectEqual(std.unicode.utf8ValidateSlice(some), isValid(some));
    }
}
