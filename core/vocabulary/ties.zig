//! Tokens of equal rank → the merge order: the leftmost first.
//!
//! Unique ranks cannot express that. Vocabularies with ties have few: in Mistral's first
//! vocabulary, the fourteen runs of spaces. So only a pretoken with two such adjacent bytes is
//! merged by rank class and position. All others are merged by rank.

const std = @import("std");
const Allocator = std.mem.Allocator;
const PairTable = @import("pair_table.zig").PairTable;

pub const Ties = struct {
    /// Indexed by rank: the lowest rank of the same class.
    classes: []u32,
    /// Pairs of bytes between which a token with a tie may be merged.
    seams: *std.StaticBitSet(1 << 16),
    is_ascii: bool = true,

    /// Takes ownership of `classes`. `vocabulary` provides the bytes of a rank with
    /// `partBytes(rank)`.
    pub fn init(
        gpa: Allocator,
        classes: []u32,
        vocabulary: anytype,
        merges: []const PairTable.Merge,
    ) Allocator.Error!Ties {
        errdefer gpa.free(classes);
        const seams = try gpa.create(std.StaticBitSet(1 << 16));
        seams.* = .initEmpty();
        var self: Ties = .{ .classes = classes, .seams = seams };
        for (merges) |merge| {
            const has_lower = classes[merge.id] != merge.id;
            const has_upper = merge.id + 1 < classes.len and
                classes[merge.id + 1] == classes[merge.id];
            if (!has_lower and !has_upper) continue;
            const left = vocabulary.partBytes(merge.left);
            const right = vocabulary.partBytes(merge.right);
            const before, const behind = .{ left[left.len - 1], right[0] };
            self.seams.set(@as(usize, before) << 8 | behind);
            self.is_ascii = self.is_ascii and before < 0x80 and behind < 0x80;
        }
        return self;
    }

    pub fn deinit(self: *Ties, gpa: Allocator) void {
        gpa.free(self.classes);
        gpa.destroy(self.seams);
    }

    pub fn areIn(self: *const Ties, piece: []const u8) bool {
        for (piece[0..piece.len -| 1], 1..) |byte, next| {
            if (self.seams.isSet(@as(usize, byte) << 8 | piece[next])) return true;
        }
        return false;
    }
};
