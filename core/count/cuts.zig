//! Text with special tokens → offsets at which it can be cut without changing its pretokens.

const std = @import("std");
const cuts = @import("../pretokens/cuts.zig");
const examples = @import("../examples.zig").examples;
const vector = @import("../platform.zig").vector;
const Names = @import("../added.zig").Names;

/// Returns the first offset from `from` where a text can be cut and that is inside no special
/// token.
pub fn findBetween(text: []const u8, from: usize, specials: *const Names) ?usize {
    var index = from;
    while (cuts.find(text, index)) |cut| : (index = cut + 1) {
        if (!isInside(text, cut, specials)) return cut;
    }
    return null;
}

/// Whether a special token covers an offset.
fn isInside(text: []const u8, cut: usize, specials: *const Names) bool {
    for (cut -| specials.len_max..cut) |start| {
        const first: usize = text[start];
        for (specials.firsts[first]..specials.firsts[first + 1]) |index| {
            const name = specials.name(index);
            if (start + name.len <= cut) continue;
            if (std.mem.startsWith(u8, text[start..], name)) return true;
        }
    }
    return false;
}

/// The last offset where a block of text may be cut for any such scheme, also after normalization
/// to NFC, NFD, NFKC or NFKD; null if none exists. More text may follow the block, so the cut
/// leaves enough bytes after it to see a whole character and a whole name.
pub fn findLast(text: []const u8, specials: *const Names) ?usize {
    var end = text.len -| (4 + specials.len_max) + 1;
    while (end > 1) {
        const start = end -| vector.len;
        var possible = if (start > 0)
            cuts.possibleBlockCuts(text, start)
        else
            vector.low(@intCast(end)) - 1;
        while (possible != 0) {
            const bit: u6 = @intCast(63 - @clz(possible));
            const index = start + bit;
            if (cuts.isBlockCut(text, index) and !isInside(text, index, specials)) return index;
            possible ^= @as(u64, 1) << bit;
        }
        end = start;
    }
    return null;
}

test "cuts: a block is cut where the rest can be encoded alone" {
    const gpa = std.testing.allocator;
    var none: Names = try .init(gpa, "", &.{}, null);
    defer none.deinit(gpa);
    try std.testing.expectEqual(10, findLast("some words and", &none));
    try std.testing.expectEqual(6, findLast("lines\nmore", &none));
    for ([_][]const u8{ "", "x", "word", "         ", "\r\n\r\n\r\n", "a.\n/bcdef" }) |text| {
        try std.testing.expectEqual(null, findLast(text, &none));
    }
}

test "cuts: the last cut is the one that a search byte by byte finds" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    const parts = [_][]const u8{
        " ", "  ",   "\n",   "\r\n",     "\t",     "a",    "words",
        "/", "\x00", "\x1c", "\u{3000}", "\u{e9}", "\xff",
    };
    var none: Names = try .init(gpa, "", &.{}, null);
    defer none.deinit(gpa);
    var buffer: [300]u8 = undefined;
    for (0..examples(40_000)) |_| {
        // A text of few kinds of parts has long stretches without a cut.
        const kinds = random.uintLessThan(usize, parts.len) + 1;
        var len: usize = 0;
        const limit = random.uintLessThan(usize, buffer.len - 8);
        while (len < limit) {
            const part = parts[(random.uintLessThan(usize, kinds) + kinds) % parts.len];
            @memcpy(buffer[len..][0..part.len], part);
            len += part.len;
        }
        const text = buffer[0..len];
        var expected: ?usize = null;
        for (1..(len -| 4) + 1) |index| if (cuts.isBlockCut(text, index)) {
            expected = index;
        };
        try std.testing.expectEqual(expected, findLast(text, &none));
    }
}
