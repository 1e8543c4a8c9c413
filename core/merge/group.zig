//! Several pretokens of at most 16 bytes → ids: short.zig for many words at once.
//!
//! The pair table exceeds the CPU's nearest caches, and each lookup of a word depends on its
//! previous one. A word merged alone therefore mostly waits for memory. Here the words take turns.
//! Each turn prefetches the buckets that the next turn of the same word needs, and they arrive
//! while the other words are processed. The merges are those of short.zig, so the ids are the
//! same.

const std = @import("std");
const vocabularies = @import("../vocabulary.zig");
const Vocabulary = vocabularies.Vocabulary;
const PairTable = @import("../vocabulary/pair_table.zig").PairTable;

pub const len_max = 16;
/// More words at once were not faster.
pub const words_max = 16;

const none = vocabularies.no_pair;
const place_bits = 6;
const none_min = none << place_bits;

pub const Group = struct {
    words: [words_max]Word = undefined,
    count: usize = 0,

    /// Adds a word of 1 to 16 bytes. The group must not be full.
    pub fn add(self: *Group, piece: []const u8) void {
        self.words[self.count].piece = piece;
        self.count += 1;
    }

    /// Merges all words. Then `Word.take` returns their ids.
    pub fn merge(self: *Group, vocabulary: *const Vocabulary) void {
        var turns: [words_max]u8 = undefined;
        var left: usize = 0;
        for (self.words[0..self.count], 0..) |*word, index| {
            turns[left] = @intCast(index);
            left += @intFromBool(word.begin(vocabulary));
        }
        while (left > 0) {
            const round = left;
            left = 0;
            for (0..round) |turn| {
                const index = turns[turn];
                turns[left] = index;
                left += @intFromBool(self.words[index].step(vocabulary));
            }
        }
    }
};

/// A word during merging. Positions of bytes start at 1, between two sentinels.
pub const Word = struct {
    piece: []const u8,
    /// The merge of the symbol at each position with its right neighbour, with the position in the
    /// low bits. The last byte, at position 16 at most, has no right neighbour; its value is never
    /// read.
    merges: [len_max + 4]u32 align(16),
    /// The id of each symbol, at the position of its first byte.
    ids: [len_max + 2]u32,
    /// A bit for each position where a symbol begins, including the sentinels.
    starts: u32,
    /// The two lookups that the last merge requires.
    behind: Pending,
    before: Pending,

    const Pending = struct { place: u32, bucket: u32, left: u32, right: u32 };
    const Vector = @Vector(4, u32);

    /// Applies the first merge. Returns false if there is none.
    inline fn begin(self: *Word, vocabulary: *const Vocabulary) bool {
        const piece = self.piece;
        std.debug.assert(piece.len <= len_max and piece.len > 0);
        self.merges = @splat(none);
        self.ids[0] = PairTable.stranger;
        self.ids[1] = vocabulary.byte_ids[piece[0]];
        self.ids[piece.len + 1] = PairTable.stranger;
        var lowest: u32 = none;
        for (piece[1..], 1..) |byte, place| {
            self.ids[place + 1] = vocabulary.byte_ids[byte];
            const id = vocabulary.bytePair(piece[place - 1], byte);
            const number = id << place_bits | @as(u32, @intCast(place));
            self.merges[place] = number;
            lowest = @min(lowest, number);
        }
        self.starts = (@as(u32, 4) << @intCast(piece.len)) - 1;
        return self.apply(vocabulary, lowest);
    }

    /// Applies the next merge. Returns false if there is none.
    inline fn step(self: *Word, vocabulary: *const Vocabulary) bool {
        const vectors: [4]Vector = @bitCast(self.merges[0..16].*);
        const half = .{ @min(vectors[0], vectors[1]), @min(vectors[2], vectors[3]) };
        const others = @reduce(.Min, @min(half[0], half[1]));
        const behind = self.finish(vocabulary, &self.behind);
        const before = self.finish(vocabulary, &self.before);
        return self.apply(vocabulary, @min(others, @min(behind, before)));
    }

    inline fn finish(self: *Word, vocabulary: *const Vocabulary, pending: *const Pending) u32 {
        const id = vocabulary.pairs.findFrom(pending.bucket, pending.left, pending.right);
        const number = id << place_bits | pending.place;
        self.merges[pending.place] = number;
        return number;
    }

    /// Applies a merge and starts the lookups of the new neighbours. Returns false if `lowest` is
    /// not a merge.
    inline fn apply(self: *Word, vocabulary: *const Vocabulary, lowest: u32) bool {
        if (lowest >= none_min) return false;
        const id = lowest >> place_bits;
        const left: u5 = @truncate(lowest);
        const behind = self.starts & (~@as(u32, 1) << left);
        const behind_right = behind & (behind - 1);
        const right: u32 = @ctz(behind);
        const after: u32 = @ctz(behind_right);
        const before: u32 = 31 - @as(u32, @clz(self.starts & ((@as(u32, 1) << left) - 1)));
        self.starts ^= behind ^ behind_right;
        self.ids[left] = id;
        self.behind = prepare(vocabulary, left, id, self.ids[after]);
        self.before = prepare(vocabulary, before, self.ids[before], id);
        self.merges[left] = none;
        self.merges[right] = none;
        self.merges[before] = none;
        return true;
    }

    inline fn prepare(vocabulary: *const Vocabulary, place: u32, left: u32, right: u32) Pending {
        const bucket: u32 = @intCast(vocabulary.pairs.bucketOf(left, right));
        @prefetch(&vocabulary.pairs.buckets[bucket], .{});
        return .{ .place = place, .bucket = bucket, .left = left, .right = right };
    }

    /// Writes the ids into `out` and returns their number.
    pub fn take(self: *const Word, out: *[len_max]u32) usize {
        var rest = self.starts ^ (1 | @as(u32, 2) << @intCast(self.piece.len));
        var count: usize = 0;
        while (rest != 0) : (rest &= rest - 1) {
            out[count] = self.ids[@ctz(rest)];
            count += 1;
        }
        return count;
    }
};
