//! Ids of texts → one array of 32-bit or 16-bit ids, with optional ids before and after each text.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const ids = @import("../ids.zig");
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

pub const Output = struct {
    gpa: Allocator,
    numbers: Numbers,
    /// The vocabulary that maps ranks to public ids; null if the result contains ranks.
    published: ?*const Vocabulary,
    /// Public ids to insert before and after each text.
    before: []const u32 = &.{},
    after: []const u32 = &.{},

    /// `narrow` requires that every id fits in 16 bits.
    pub const Numbers = union(enum) { wide: std.ArrayList(u32), narrow: std.ArrayList(u16) };

    pub fn deinit(self: *Output) void {
        switch (self.numbers) {
            inline else => |*list| list.deinit(self.gpa),
        }
    }

    /// Whether a list written by an encoder is already the result.
    pub fn isPlain(self: *const Output) bool {
        return self.numbers == .wide and !self.hasEdges();
    }

    pub fn hasEdges(self: *const Output) bool {
        return self.before.len + self.after.len > 0;
    }

    pub fn total(self: *const Output) usize {
        return switch (self.numbers) {
            inline else => |list| list.items.len,
        };
    }

    /// Reserves capacity for the ids of most short texts, or of any long text. If that fails, the
    /// list grows later.
    pub fn reserve(self: *Output, text_bytes: usize, texts: usize) void {
        const edges = texts * (self.before.len + self.after.len);
        switch (self.numbers) {
            inline else => |*list| makeList(self.gpa, list, text_bytes, edges),
        }
    }

    pub fn hasRoom(self: *const Output, len: usize) bool {
        return switch (self.numbers) {
            inline else => |list| len <= list.capacity - list.items.len,
        };
    }

    pub fn makeRoom(self: *Output, len: usize) Allocator.Error!void {
        switch (self.numbers) {
            inline else => |*list| {
                try list.ensureUnusedCapacity(self.gpa, len);
                platform.memory.adviseHuge(list.allocatedSlice());
            },
        }
    }

    /// Claims `len` ids, for which there is capacity, and returns their offset.
    pub fn take(self: *Output, len: usize) usize {
        switch (self.numbers) {
            inline else => |*list| {
                list.items.len += len;
                return list.items.len - len;
            },
        }
    }

    /// Copies ranks that an encoder produced to their offset. Returns the offset after them.
    pub fn copy(self: *Output, place: usize, ranks: []const u32) usize {
        const end = place + ranks.len;
        switch (self.numbers) {
            .wide => |list| {
                const out = list.items[place..end];
                if (self.published) |vocabulary| {
                    vocabulary.copyPublic(out, ranks);
                } else @memcpy(out, ranks);
            },
            .narrow => |list| {
                const public = if (self.published) |some| some.public else null;
                const out = list.items[place..end];
                if (public) |numbers| {
                    for (out, ranks) |*id, rank| {
                        id.* = @intCast(if (rank < numbers.len) numbers[rank] else rank);
                    }
                } else for (out, ranks) |*id, rank| id.* = @intCast(rank);
            },
        }
        return end;
    }

    /// Writes public ids to their offset. Returns the offset after them.
    pub fn put(self: *Output, place: usize, numbers: []const u32) usize {
        switch (self.numbers) {
            inline else => |list| {
                for (list.items[place..][0..numbers.len], numbers) |*id, number| {
                    id.* = @intCast(number);
                }
            },
        }
        return place + numbers.len;
    }
};

/// Estimated number of ids of most texts. Untouched memory costs little, but moving a list does
/// not.
pub fn roomFor(text_bytes: usize) usize {
    return text_bytes / 3 + 16;
}

/// Texts of at least this size get capacity for one id per byte. In scripts with many ids per byte,
/// moving a long list takes longer than encoding part of the text, and the added memory would have
/// small platform.memory.
const long_text_bytes = 1 << 20;

/// Reserves capacity for the ids of most short texts, or of any long text.
pub fn reserve(list: *ids.List, text_bytes: usize) void {
    makeList(list.gpa, &list.ids, text_bytes, 0);
}

fn makeList(gpa: Allocator, list: anytype, text_bytes: usize, extra: usize) void {
    const likely = extra + roomFor(text_bytes);
    const room = if (text_bytes < long_text_bytes) likely else extra + text_bytes + 16;
    list.ensureTotalCapacity(gpa, room) catch {
        list.ensureTotalCapacity(gpa, likely) catch {};
    };
    platform.memory.adviseHuge(list.allocatedSlice());
}
