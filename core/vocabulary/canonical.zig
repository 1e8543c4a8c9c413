//! Tokens by rank → the canonical pair of each token.
//!
//! In order of ids, each token is merged with the pairs of lower ids. The last two symbols are its
//! canonical pair. If more than two symbols remain and no two neighbours form a token, the token is
//! unmergeable: it is found only as a whole pretoken and needs no pair. If two neighbours do form a
//! token, a symbol may have a larger id than its merge. This order then cannot decide, and every
//! split of every token becomes a pair.

const std = @import("std");
const Allocator = std.mem.Allocator;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;
const PairTable = @import("pair_table.zig").PairTable;

const none = PairTable.none;

/// Merging here takes quadratic time. Real tokens have up to 1,024 bytes.
const len_max = 1024;

/// Fills the pair table and returns the number of unmergeable tokens. Returns null if it cannot
/// decide which pairs can occur.
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

/// Writes the symbols of a token after all merges with an id below `end`. Returns their number.
fn mergeBelow(
    vocabulary: *const Vocabulary,
    token: []const u8,
    end: u32,
    parts: *[len_max]u32,
) usize {
    // merges[i] is the merge of symbols i and i + 1.
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

/// Whether no two neighbours of these symbols form a token.
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

/// Returns a table of every split of every token.
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

/// Returns the id of these bytes during merging: a token, or the placeholder of a byte.
fn partId(vocabulary: *const Vocabulary, part: []const u8) ?u32 {
    return if (part.len == 1) vocabulary.byte_ids[part[0]] else vocabulary.find(part);
}
