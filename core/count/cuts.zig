//! Text with special tokens → offsets at which it can be cut without changing its pretokens.

const std = @import("std");
const cuts = @import("../pretokens/cuts.zig");
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
    var index = text.len -| (4 + specials.len_max);
    while (index > 0) : (index -= 1) {
        if (cuts.isBlockCut(text, index) and !isInside(text, index, specials)) return index;
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
