//! All pairs of a model → their merges and ranks, for BPE dropout.
//!
//! If no merge is ever skipped, one pair per token is sufficient (merged.zig). With dropout the
//! others can occur too: if "ab" is skipped, "abc" can still be built from "a" and "bc" if the list
//! contains that merge. Merging starts with single characters here, whose own merges are never
//! skipped.

const std = @import("std");
const Allocator = std.mem.Allocator;
const models = @import("model.zig");
const Numbered = @import("ordered.zig").Numbered;
const Error = models.Error;

const none = models.none;

pub const Every = struct {
    /// Ranks of two symbols → their merge.
    merges: std.AutoHashMapUnmanaged([2]u32, Merge) = .empty,
    /// A random number of 24 bits below this limit skips a merge. Hugging Face compares f32
    /// numbers, which have 24 bits of precision.
    dropped_end: u32,

    /// The lower order comes first: the index in the list, or the order of the token.
    pub const Merge = struct { order: u32, id: u32 };

    pub fn init(gpa: Allocator, numbered: *const Numbered, culprit: *u32) Error!Every {
        const model = numbered.tokens.model;
        const share: f64 = @as(f32, @floatCast(model.dropout));
        var self: Every = .{ .dropped_end = @intFromFloat(@ceil(share * (1 << 24))) };
        errdefer self.deinit(gpa);
        if (model.merges) |merges| {
            try self.merges.ensureTotalCapacity(gpa, @intCast(merges.len / 2));
            for (numbered.merged.made, 0..) |place, index| {
                if (place == none) continue;
                const pair = merges[2 * index ..][0..2];
                // If a pair is listed twice, the last one counts.
                self.merges.putAssumeCapacity(
                    .{ numbered.rankOf(pair[0]), numbered.rankOf(pair[1]) },
                    .{ .order = @intCast(index), .id = numbered.ranks[place] },
                );
            }
            return self;
        }
        try self.enterSplits(gpa, numbered, culprit);
        return self;
    }

    /// Inserts every two neighbours that form a token.
    fn enterSplits(
        self: *Every,
        gpa: Allocator,
        numbered: *const Numbered,
        culprit: *u32,
    ) Error!void {
        const tokens = numbered.tokens;
        const order = tokens.model.order orelse tokens.model.ids;
        for (tokens.kinds, 0..) |kind, index| {
            const place: u32 = @intCast(index);
            if (kind != .token or tokens.isSymbol(place)) continue;
            const token = tokens.tokenBytes(place);
            for (1..@max(token.len, 1)) |cut| {
                const left = try tokens.findPart(token[0..cut], culprit) orelse continue;
                const right = try tokens.findPart(token[cut..], culprit) orelse continue;
                try self.merges.put(
                    gpa,
                    .{ numbered.rankOf(left), numbered.rankOf(right) },
                    .{ .order = order[place], .id = numbered.ranks[place] },
                );
            }
        }
    }

    pub fn deinit(self: *Every, gpa: Allocator) void {
        self.merges.deinit(gpa);
    }
};
