//! Tokens by rank → the one pair that becomes each of them.
//!
//! In the order of the ids, each token is merged by the pairs of the lower ids. What is left just
//! before it becomes one is its canonical pair. If more than two parts are left and no two
//! neighbours are a token, merging never reaches it: it is found only as a whole pretoken, and no
//! pair is needed. If two are, then a token could have a part of a larger id, and this order of
//! work does not tell: then every split of every token is a pair.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;
const PairTable = @import("pair_table.zig").PairTable;

const none = PairTable.none;

/// Merging here takes the square of the length; real tokens have up to 1,024 bytes.
const len_max = 1024;

/// Fills the table of pairs and returns how many tokens merging does not reach; null when it
/// cannot tell which pairs can occur.
pub fn enterPairs(vocabulary: *Vocabulary) ?usize {
    var unreached: usize = 0;
    var parts: [len_max]u32 = undefined;
    for (0..vocabulary.ids_end) |index| {
        const id: u32 = @intCast(index);
        const token = vocabulary.tokenBytes(id);
        if (token.len < 2) continue;
        if (token.len > len_max) return null;
        const count = mergeBelow(vocabulary, token, id, &parts);
        if (count == 2) {
            vocabulary.pairs.put(.{ .left = parts[0], .right = parts[1], .id = id });
        } else {
            if (!isStuck(vocabulary, token, parts[0..count])) return null;
            unreached += 1;
        }
    }
    return unreached;
}

/// The parts of a token when all pairs with an id below `end` have merged; returns their number.
fn mergeBelow(
    vocabulary: *const Vocabulary,
    token: []const u8,
    end: u32,
    parts: *[len_max]u32,
) usize {
    // merges[i] is what parts i and i + 1 become.
    var merges: [len_max]u32 = undefined;
    for (token, parts[0..token.len]) |byte, *part| part.* = vocabulary.byte_ids[byte];
    for (merges[0 .. token.len - 1], token[0 .. token.len - 1], token[1..]) |*id, left, right| {
        const pair = vocabulary.bytePair(left, right);
        id.* = if (pair < end) pair else none;
    }
    var count = token.len;
    while (count > 2) {
        const at = std.mem.indexOfMin(u32, merges[0 .. count - 1]);
        const id = merges[at];
        if (id == none) break;
        count -= 1;
        parts[at] = id;
        if (at + 1 < count) {
            @memmove(parts[at + 1 .. count], parts[at + 2 .. count + 1]);
            @memmove(merges[at + 1 .. count - 1], merges[at + 2 .. count]);
            merges[at] = vocabulary.pairs.find(id, parts[at + 1]);
        }
        if (at > 0) merges[at - 1] = vocabulary.pairs.find(parts[at - 1], id);
    }
    return count;
}

/// Whether no two neighbours of these parts are a token.
fn isStuck(vocabulary: *const Vocabulary, token: []const u8, parts: []const u32) bool {
    var start: usize = 0;
    for (parts[0 .. parts.len - 1], parts[1..]) |left, right| {
        const middle = start + vocabulary.partLen(left);
        const end = middle + vocabulary.partLen(right);
        if (vocabulary.find(token[start..end]) != null) return false;
        start = middle;
    }
    return true;
}

/// A table of every split of every token.
pub fn splits(
    gpa: Allocator,
    vocabulary: *const Vocabulary,
    seed: u64,
) Allocator.Error!PairTable {
    var merges: std.ArrayList(PairTable.Merge) = .empty;
    defer merges.deinit(gpa);
    for (0..vocabulary.ids_end) |id| {
        const token = vocabulary.tokenBytes(@intCast(id));
        for (1..@max(token.len, 1)) |cut| {
            const left = partId(vocabulary, token[0..cut]) orelse continue;
            const right = partId(vocabulary, token[cut..]) orelse continue;
            try merges.append(gpa, .{ .left = left, .right = right, .id = @intCast(id) });
        }
    }
    var pairs: PairTable = try .init(gpa, merges.items.len, seed);
    pairs.putAll(merges.items);
    return pairs;
}

/// The id that stands for these bytes while merging: a token, or the stand-in of a byte.
fn partId(vocabulary: *const Vocabulary, part: []const u8) ?u32 {
    return if (part.len == 1) vocabulary.byte_ids[part[0]] else vocabulary.find(part);
}
