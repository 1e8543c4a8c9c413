//! Pretoken of at most 62 bytes → ids: the lowest-ranked pair first, the leftmost on a tie.
//!
//! The merged id of two neighbours and their position form one number, so the minimum is the next
//! merge. A symbol keeps the position of its first byte, so no data moves. A 64-bit mask of these
//! positions gives the neighbours. Each merge depends on the previous one, so the latency from one
//! minimum to the next matters. It is kept short, without branches that depend on the text. (Linked
//! lists of neighbours, and groups with their own minimum, were slower.)

const std = @import("std");
const vocabularies = @import("../vocabulary.zig");
const Vocabulary = vocabularies.Vocabulary;
const PairTable = @import("../vocabulary/pair_table.zig").PairTable;

/// Positions of bytes start at 1. Position 0 and the one after the last byte are sentinels, which
/// never merge. Together they fill a mask of 64 bits.
pub const len_max = 62;

pub const none = vocabularies.no_pair;
const place_bits = 6;
/// Larger than the number of any merge, at any position.
const none_min = none << place_bits;

/// Writes the ids of `piece` into `out` and returns their number. Bytes without a token produce
/// their placeholder ids.
pub fn merge(vocabulary: *const Vocabulary, piece: []const u8, out: *[len_max]u32) usize {
    std.debug.assert(piece.len <= len_max and piece.len > 0);
    const source: Bytes = .{ .parts = piece };
    if (piece.len <= 16) return Parts(1, 16).merge(vocabulary, source, out);
    if (piece.len <= 32) return Parts(1, 32).merge(vocabulary, source, out);
    return Parts(16, 4).merge(vocabulary, source, out);
}

/// The same for a sequence of at most 62 ids, some of which are merged already. `out` has capacity
/// for as many ids.
pub fn mergeFrom(vocabulary: *const Vocabulary, first: []const u32, out: [*]u32) usize {
    std.debug.assert(first.len <= len_max and first.len > 0);
    const source: Ids = .{ .parts = first };
    if (first.len <= 16) return Parts(1, 16).merge(vocabulary, source, out);
    return Parts(16, 4).merge(vocabulary, source, out);
}

/// The input: the id of each symbol, and the merge of each symbol with the next one.
const Bytes = struct {
    parts: []const u8,

    inline fn id(self: Bytes, vocabulary: *const Vocabulary, at: usize) u32 {
        return vocabulary.byte_ids[self.parts[at]];
    }
    inline fn pair(self: Bytes, vocabulary: *const Vocabulary, at: usize) u32 {
        return vocabulary.bytePair(self.parts[at], self.parts[at + 1]);
    }
};
const Ids = struct {
    parts: []const u32,

    inline fn id(self: Ids, _: *const Vocabulary, at: usize) u32 {
        return self.parts[at];
    }
    inline fn pair(self: Ids, vocabulary: *const Vocabulary, at: usize) u32 {
        return vocabulary.pairs.find(self.parts[at], self.parts[at + 1]);
    }
};

/// The state of a merge.
fn Parts(comptime vectors_count: u32, comptime lanes: u32) type {
    return struct {
        /// The id of each symbol, at the position of its first byte.
        ids: [vectors_count * lanes + 2]u32,
        /// A bit for each position where a symbol begins, including the sentinels.
        starts: u64,
        merges: Merges(vectors_count, lanes),

        const Self = @This();

        fn merge(vocabulary: *const Vocabulary, source: anytype, out: [*]u32) usize {
            var self: Self = undefined;
            self.fill(vocabulary, source);
            while (self.step(vocabulary)) {}
            const strangers = 1 | @as(u64, 2) << @intCast(source.parts.len);
            var rest = self.starts ^ strangers;
            var count: usize = 0;
            while (rest != 0) : (rest &= rest - 1) {
                out[count] = self.ids[@ctz(rest)];
                count += 1;
            }
            return count;
        }

        inline fn fill(self: *Self, vocabulary: *const Vocabulary, source: anytype) void {
            const len = source.parts.len;
            var numbers: [vectors_count * lanes]u32 = @splat(none);
            self.ids[0] = PairTable.stranger;
            self.ids[1] = source.id(vocabulary, 0);
            self.ids[len + 1] = PairTable.stranger;
            for (1..len) |place| {
                self.ids[place + 1] = source.id(vocabulary, place);
                const id = source.pair(vocabulary, place - 1);
                numbers[place - 1] = id << place_bits | @as(u32, @intCast(place));
            }
            self.merges = .{ .vectors = @bitCast(numbers) };
            self.starts = @as(u64, std.math.maxInt(u64)) >> @intCast(len_max - len);
        }

        /// Applies the next merge. Returns false if there is none.
        inline fn step(self: *Self, vocabulary: *const Vocabulary) bool {
            const lowest = self.merges.lowest();
            if (lowest >= none_min) return false;
            const id = lowest >> place_bits;
            const left: u6 = @truncate(lowest);
            const behind = self.starts & (~@as(u64, 1) << left);
            const behind_right = behind & (behind - 1);
            const right: u6 = @intCast(@ctz(behind));
            const after: u6 = @intCast(@ctz(behind_right));
            const before: u6 = @intCast(63 - @clz(self.starts & ((@as(u64, 1) << left) - 1)));
            self.starts ^= behind ^ behind_right;
            self.ids[left] = id;
            const with_after = vocabulary.pairs.find(id, self.ids[after]);
            const with_before = vocabulary.pairs.find(self.ids[before], id);
            self.merges.put(right, none);
            self.merges.put(left, with_after);
            self.merges.put(before, with_before);
            return true;
        }
    };
}

/// The merge of the symbol at each position from 1 with its right neighbour, with the position in
/// the low bits.
///
/// A single vector stays in registers on every target, which suffices for most words. Of several
/// vectors only the changed ones are written, and as whole vectors: loading a vector soon after a
/// store to one of its lanes would stall.
fn Merges(comptime vectors_count: u32, comptime lanes: u32) type {
    return struct {
        vectors: [vectors_count]Vector,

        const Self = @This();
        const Vector = @Vector(lanes, u32);

        inline fn lowest(self: *const Self) u32 {
            if (vectors_count == 1) return @reduce(.Min, self.vectors[0]);
            var lowests: [4]Vector = self.vectors[0..4].*;
            inline for (4..vectors_count) |index| {
                lowests[index % 4] = @min(lowests[index % 4], self.vectors[index]);
            }
            const halves = .{ @min(lowests[0], lowests[1]), @min(lowests[2], lowests[3]) };
            return @reduce(.Min, @min(halves[0], halves[1]));
        }

        /// The position of a sentinel has no lane, or one that stays `none`.
        inline fn put(self: *Self, place: u6, id: u32) void {
            const number: Vector = @splat(id << place_bits | place);
            const index: u32 = place -% 1;
            const vector = &self.vectors[if (vectors_count == 1) 0 else index / lanes];
            const lane: Vector = @splat(if (vectors_count == 1) place else index % lanes + 1);
            const from_one = std.simd.iota(u32, lanes) + @as(Vector, @splat(1));
            vector.* = @select(u32, from_one == lane, number, vector.*);
        }
    };
}
