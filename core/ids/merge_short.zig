//! Pretoken of at most 128 bytes → ids: the lowest pair first, on the stack.
//!
//! Each round finds the lowest merge (the leftmost on a tie) with vector instructions, joins the
//! two parts and asks the table for the two new neighbours. Quadratic, but at this length faster
//! than anything with a heap: all of it lies in the first-level cache.

const std = @import("std");
const vocabularies = @import("../vocabulary.zig");
const Vocabulary = vocabularies.Vocabulary;

pub const len_max = 128;
pub const none = vocabularies.no_pair;
const lanes = 8;
const Vector = @Vector(lanes, u32);

/// Writes the ids of `piece` into `out` and returns their number. Bytes without a token come out
/// as their stand-ins.
pub fn merge(vocabulary: *const Vocabulary, piece: []const u8, out: *[len_max]u32) usize {
    std.debug.assert(piece.len <= len_max and piece.len > 0);
    // merges[i] is what parts i and i + 1 become; `none` fills the last vector.
    var merges: [len_max + lanes]u32 = undefined;
    var count = piece.len;
    for (piece, out[0..count]) |byte, *part| part.* = vocabulary.byte_ids[byte];
    for (0..count - 1) |i| merges[i] = vocabulary.bytePair(piece[i], piece[i + 1]);
    merges[count - 1 ..][0..lanes].* = @splat(none);
    while (true) {
        const lowest = lowestOf(merges[0..], count - 1);
        if (lowest == none) return count;
        const at = indexOf(merges[0..], lowest);
        count -= 1;
        @memmove(out[at + 1 .. count], out[at + 2 .. count + 1]);
        const moved = count - at + lanes - 2;
        @memmove(merges[at + 1 ..][0..moved], merges[at + 2 ..][0..moved]);
        out[at] = lowest;
        merges[at] = if (at + 1 < count) pairOf(vocabulary, lowest, out[at + 1]) else none;
        if (at > 0) merges[at - 1] = pairOf(vocabulary, out[at - 1], lowest);
    }
}

inline fn pairOf(vocabulary: *const Vocabulary, left: u32, right: u32) u32 {
    return vocabulary.pairs.get(left, right) orelse none;
}

/// The smallest of the first `count` numbers; the vector they end in is filled up with `none`.
pub inline fn lowestOf(numbers: []const u32, count: usize) u32 {
    var lowest: Vector = @splat(none);
    var index: usize = 0;
    while (index < count) : (index += lanes) {
        lowest = @min(lowest, @as(Vector, numbers[index..][0..lanes].*));
    }
    return @reduce(.Min, lowest);
}

inline fn indexOf(numbers: []const u32, number: u32) usize {
    const wanted: Vector = @splat(number);
    var index: usize = 0;
    while (true) : (index += lanes) {
        const equal: u8 = @bitCast(@as(Vector, numbers[index..][0..lanes].*) == wanted);
        if (equal != 0) return index + @ctz(equal);
    }
}
