//! A pretoken → its ids, by merging: the choice of the algorithm, and its scratch memory.
//!
//! A vocabulary decides most of it: dropout and ties need their own algorithms, and characters that
//! are not tokens are unknown, dropped or replaced by the tokens of their bytes. Otherwise the
//! length of the pretoken decides.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("platform.zig");
const Failure = @import("failure.zig").Failure;
const Vocabulary = @import("vocabulary.zig").Vocabulary;
const short = @import("merge/short.zig");
const long = @import("merge/long.zig");
const random_ = @import("merge/random.zig");
const settle = @import("merge/unknown.zig");
const Window = @import("merge/window.zig").Window;

pub const Poll = platform.threads.Poll;

pub const Error = error{
    OutOfMemory,
    /// The text contains a byte that no token covers. `Merger.missing_byte` is that byte.
    MissingByte,
    /// `Merger.poll` returned true.
    Interrupted,
};

/// Returns the reason for a text that cannot be encoded.
pub fn failureOf(failure: Error, missing_byte: u8) Failure {
    return switch (failure) {
        error.OutOfMemory => .out_of_memory,
        error.Interrupted => .interrupted,
        error.MissingByte => .init(
            .vocabulary,
            "the text contains byte 0x{x:0>2}, for which this vocabulary has no token; " ++
                "use a vocabulary with all 256 bytes, or remove it from the text",
            .{missing_byte},
        ),
    };
}

pub const Merger = struct {
    gpa: Allocator,
    vocabulary: *const Vocabulary,
    short_ids: [short.len_max]u32 = undefined,
    long_ids: std.ArrayList(u32) = .empty,
    /// Memory for ids while unknown characters are replaced.
    unknown_ids: std.ArrayList(u32) = .empty,
    /// Created when BPE dropout is first used.
    random: ?random_.Merger = null,
    missing_byte: u8 = 0,
    poll: ?Poll = null,
    bytes_since_poll: usize = 0,

    pub fn init(gpa: Allocator, vocabulary: *const Vocabulary) Merger {
        return .{ .gpa = gpa, .vocabulary = vocabulary };
    }

    pub fn deinit(self: *Merger) void {
        if (self.random) |*random| random.deinit(self.gpa);
        self.long_ids.deinit(self.gpa);
        self.unknown_ids.deinit(self.gpa);
    }

    /// Returns memory for `count` ids, valid until the next call.
    pub fn roomFor(self: *Merger, count: usize) Allocator.Error![*]u32 {
        try self.unknown_ids.ensureTotalCapacity(self.gpa, count);
        return self.unknown_ids.items.ptr;
    }

    /// Calls the poll once per megabyte.
    pub inline fn pollAfter(self: *Merger, bytes: usize) Error!void {
        self.bytes_since_poll += bytes;
        if (self.bytes_since_poll < Poll.bytes_between) return;
        self.bytes_since_poll = 0;
        const poll = self.poll orelse return;
        if (poll.function(poll.context)) return error.Interrupted;
    }

    /// Returns the ids of a pretoken, valid until the next call. A pretoken that is a token gets
    /// that token's id, even if merging would not produce it (tiktoken's rule). Otherwise its bytes
    /// are merged. With BPE dropout the bytes are always merged.
    pub fn idsOf(self: *Merger, piece: []const u8) Error![]const u32 {
        if (self.vocabulary.isRandom()) return self.mergedIds(piece);
        if (self.vocabulary.find(piece)) |id| {
            self.short_ids[0] = id;
            return self.short_ids[0..1];
        }
        return self.mergedIds(piece);
    }

    /// Returns the ids that merging produces, valid until the next call.
    pub fn mergedIds(self: *Merger, piece: []const u8) Error![]const u32 {
        const found = try self.mergedParts(piece);
        if (self.vocabulary.leftover != .refuse) return settle.settle(self, piece, found);
        try self.refuseStandIns(found);
        return found;
    }

    /// Returns the raw symbols that merging produces, valid until the next call. They include
    /// placeholder ids of missing bytes and prefixes of characters.
    pub fn mergedParts(self: *Merger, piece: []const u8) Error![]u32 {
        const vocabulary = self.vocabulary;
        if (vocabulary.isRandom()) {
            if (self.random == null) self.random = .init();
            try self.random.?.merge(self, piece, &self.long_ids);
            return self.long_ids.items;
        }
        if (vocabulary.isTied(piece)) {
            var window: Window = .empty;
            defer window.deinit(self.gpa);
            const found = try window.mergeTied(self.gpa, vocabulary, piece);
            self.long_ids.clearRetainingCapacity();
            try self.long_ids.appendSlice(self.gpa, found);
            return self.long_ids.items;
        }
        if (piece.len <= short.len_max) {
            const count = short.merge(vocabulary, piece, &self.short_ids);
            return self.short_ids[0..count];
        }
        self.long_ids.clearRetainingCapacity();
        try long.merge(self.gpa, vocabulary, piece, piece.len, &self.long_ids);
        return self.long_ids.items;
    }

    pub fn refuseStandIns(self: *Merger, ids: []const u32) Error!void {
        const ids_end = self.vocabulary.ids_end;
        for (ids) |id| {
            if (id < ids_end) continue;
            self.missing_byte = @intCast(id - ids_end);
            return error.MissingByte;
        }
    }
};

test {
    _ = @import("merge/testing.zig");
}
