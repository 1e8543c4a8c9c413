//! Tokens with their ids → the rank of a token, as the encoders of this folder read it.

const std = @import("std");

pub const gpa = std.heap.smp_allocator;
/// The rank of bytes that are not a token. It is larger than all others.
pub const none: u32 = std.math.maxInt(u32);

pub const Vocabulary = struct {
    ranks: std.StringHashMapUnmanaged(u32) = .empty,

    /// Token number i has the bytes before `ends[i]` and the id `ids[i]`. Its rank is its id.
    pub fn init(data: []const u8, ends: []const u32, ids: []const u32) !Vocabulary {
        var self: Vocabulary = .{};
        const owned = try gpa.dupe(u8, data);
        var start: usize = 0;
        for (ends, ids) |end, id| {
            try self.ranks.put(gpa, owned[start..end], id);
            start = end;
        }
        return self;
    }

    pub fn rank(self: *const Vocabulary, token: []const u8) u32 {
        return self.ranks.get(token) orelse none;
    }
};
