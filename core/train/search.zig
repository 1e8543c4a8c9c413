//! Words → those that contain a pair of a batch, without word lists.
//!
//! Most tokens are not the left token of any pair in the batch, which one array access detects.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pairs_ = @import("pairs.zig");
const Word = @import("words.zig").Word;

/// One merge of a batch.
pub const Merge = struct {
    left: u32,
    right: u32,
    new: u32,
    count: u64,
    owner: u32,
    slot: pairs_.Slot,
};

/// The pairs of a batch by their left token, and the words that contain them.
pub const Search = struct {
    /// By token: the index plus one of the last merge added with it on the left.
    firsts: []u16,
    /// By merge: the same for the previous merge with that left token.
    others: []u16,
    batch: []const Merge,
    lists: []std.ArrayList(Word),

    pub fn init(gpa: Allocator, batch: []const Merge, ids_end: usize) Allocator.Error!Search {
        const firsts = try gpa.alloc(u16, ids_end + batch.len);
        errdefer gpa.free(firsts);
        @memset(firsts, 0);
        const lists = try gpa.alloc(std.ArrayList(Word), batch.len);
        @memset(lists, .empty);
        const others = firsts[ids_end..];
        for (batch, others, 1..) |one, *other, number| {
            other.* = firsts[one.left];
            firsts[one.left] = @intCast(number);
        }
        return .{ .firsts = firsts[0..ids_end], .others = others, .batch = batch, .lists = lists };
    }

    pub fn deinit(self: *Search, gpa: Allocator) void {
        for (self.lists) |*list| list.deinit(gpa);
        gpa.free(self.lists);
        gpa.free(self.firsts.ptr[0 .. self.firsts.len + self.others.len]);
    }

    pub inline fn look(
        self: *Search,
        gpa: Allocator,
        comptime Token: type,
        tokens: []const Token,
        word: Word,
    ) Allocator.Error!void {
        for (tokens[0 .. tokens.len - 1], tokens[1..]) |left, right| {
            var number = self.firsts[left];
            while (number != 0) : (number = self.others[number - 1]) {
                if (self.batch[number - 1].right != right) continue;
                const list = &self.lists[number - 1];
                if (list.items.len > 0 and list.getLast() == word) continue;
                try list.append(gpa, word);
            }
        }
    }
};
