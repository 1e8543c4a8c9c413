//! Pretoken of at most 62 bytes → ids: the lowest pair first, the leftmost on a tie.
//!
//! What two neighbours become and the place where they stand are one number, so the smallest
//! number is the next merge. Parts keep the place of their first byte, so nothing moves, and a
//! mask of these places, one register, says who is beside whom. A merge waits for the one before
//! it, so what counts is the way from one smallest number to the next: short, and without a branch
//! that text decides. (Linked neighbours, and groups that keep their minimum, were slower.)

const std = @import("std");
const vocabularies = @import("../vocabulary.zig");
const Vocabulary = vocabularies.Vocabulary;
const PairTable = @import("../vocabulary/pair_table.zig").PairTable;

/// Bytes have the places from 1 on. At place 0 and behind the last byte are strangers, which
/// merge with nothing: with them a mask of 64 bits is full.
pub const len_max = 62;

pub const none = vocabularies.no_pair;
const place_bits = 6;
/// Larger than what any pair becomes, wherever it stands.
const none_min = none << place_bits;

/// Writes the ids of `piece` into `out` and returns their number. Bytes without a token come out
/// as their stand-ins.
pub fn merge(vocabulary: *const Vocabulary, piece: []const u8, out: *[len_max]u32) usize {
    std.debug.assert(piece.len <= len_max and piece.len > 0);
    const source: Bytes = .{ .parts = piece };
    if (piece.len <= 16) return Parts(1, 16).merge(vocabulary, source, out);
    if (piece.len <= 32) return Parts(1, 32).merge(vocabulary, source, out);
    return Parts(16, 4).merge(vocabulary, source, out);
}

/// The same for a piece of which some parts are merged already: `first` are the ids to begin with,
/// 62 at most. `out` has room for as many.
pub fn mergeFrom(vocabulary: *const Vocabulary, first: []const u32, out: [*]u32) usize {
    std.debug.assert(first.len <= len_max and first.len > 0);
    const source: Ids = .{ .parts = first };
    if (first.len <= 16) return Parts(1, 16).merge(vocabulary, source, out);
    return Parts(16, 4).merge(vocabulary, source, out);
}

/// What is to be merged: the id of each part, and what it and the next become.
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

/// A piece while it is merged.
fn Parts(comptime vectors_count: u32, comptime lanes: u32) type {
    return struct {
        /// The id of each part, at the place of its first byte.
        ids: [vectors_count * lanes + 2]u32,
        /// A bit for each place where a part begins, those of the strangers included.
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

        /// Makes the next merge; false when there is none.
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

/// What the part at each place from 1 on and the next become, with the place in the low bits.
///
/// One vector of all of them stays in the registers of every machine: most words do. Of several,
/// only those that change are written, and as vectors: one that is read soon after a number inside
/// it was written would wait for the cache.
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

        /// A stranger's place has no lane, or one that stays `none`.
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
