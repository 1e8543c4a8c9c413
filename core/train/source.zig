//! Pretoken counts → the words of a learner, and its merges.
//!
//! A word is a pretoken whose bytes are tokens of the alphabet. Entries of an inventory are added
//! by all threads, adjacent ones in the same partition. Ids take two bytes if that is enough.
//!
//! **Invariant** the counts of all pairs add up to less than 2^63.

const std = @import("std");
const Allocator = std.mem.Allocator;
const counts = @import("../count.zig");
const platform = @import("../platform.zig");
const train = @import("../train.zig");
const Failure = @import("../failure.zig").Failure;

/// In the alphabet: a byte that is dropped from words.
pub const no_id = std.math.maxInt(u32);

pub const Error = error{
    OutOfMemory,
    /// The counts of all pairs add up to 2^63 or more.
    CountsTooLarge,
    /// A word has an id without a token.
    NoSuchId,
    /// The arrays of words do not describe the same words.
    InconsistentWords,
    /// There is no distinct file for each partition, or there are words already.
    NoFileEach,
    /// `Learner.rejected_file` is not an open file.
    FileNotOpen,
    /// It has run, or a call failed after it had added a part of its words.
    Closed,
};
pub const AnyError = counts.Error || Error;

/// The tokens that exist before the first merge.
pub const Tokens = struct {
    /// The id of each byte, or `no_id`.
    alphabet: []const u32,
    bytes: []const u8,
    lengths: []const u32,
    ids: []const u32,
    /// The script of each token, only with `Ties.pieces`.
    scripts: []const u32,
};

pub const Learner = struct {
    gpa: Allocator,
    inner: Inner,
    alphabet: [256]u32 = @splat(no_id),
    /// Number of pairs in the words.
    pairs: u64 = 0,
    /// Whether it has run, or a call failed after a part of its words. Then no word can be added.
    is_closed: bool = false,
    /// Set with error.FileNotOpen.
    rejected_file: u32 = 0,

    const Inner = union(enum) { narrow: train.Learner(u16), wide: train.Learner(u32) };

    pub fn init(gpa: Allocator, options: train.Options) Allocator.Error!Learner {
        const is_narrow = options.ids_end <= 1 << 16;
        return .{ .gpa = gpa, .inner = if (is_narrow)
            .{ .narrow = try .init(gpa, options) }
        else
            .{ .wide = try .init(gpa, options) } };
    }

    pub fn deinit(self: *Learner) void {
        switch (self.inner) {
            inline else => |*learner| learner.deinit(),
        }
    }

    /// Returns the reason for words that cannot be added. The report is that of their file.
    pub fn failureOf(
        self: *const Learner,
        failure: AnyError,
        report: *const counts.Report,
    ) Failure {
        return switch (failure) {
            error.CountsTooLarge => .init(
                .value,
                "the counts of all pairs add up to 2^63 or more; use smaller weights",
                .{},
            ),
            error.NoSuchId => .init(.value, "a word has an unknown token id", .{}),
            error.InconsistentWords => .init(
                .value,
                "lengths, counts and ids are inconsistent",
                .{},
            ),
            error.NoFileEach => .init(.value, "expected a file per thread before words", .{}),
            error.FileNotOpen => .init(.value, "file {d} is not open", .{self.rejected_file}),
            error.Closed => .init(.busy, "this learner has already run", .{}),
            else => |other| counts.failureOf(other, report),
        };
    }

    /// Adds the tokens. Returns the reason if they are inconsistent.
    pub fn addTokens(self: *Learner, tokens: Tokens) Allocator.Error!?Failure {
        const lengths, const numbers = .{ tokens.lengths, tokens.ids };
        if (tokens.alphabet.len != 256 or lengths.len != numbers.len) {
            return .init(.value, "expected 256 ids of bytes, and a length per id", .{});
        }
        @memcpy(&self.alphabet, tokens.alphabet);
        switch (self.inner) {
            inline else => |*learner| {
                const first_id = learner.options.first_id;
                for (&self.alphabet) |id| if (id != no_id) {
                    if (id >= first_id) return .init(.value, "{d} is too large", .{id});
                    learner.tokens_end = @max(learner.tokens_end, id + 1);
                };
                var start: usize = 0;
                for (lengths, numbers) |length, id| {
                    if (id >= first_id) return .init(.value, "{d} is too large", .{id});
                    if (length > tokens.bytes.len - start) {
                        return .init(.value, "{d} is too large", .{length});
                    }
                    try learner.addToken(id, tokens.bytes[start..][0..length]);
                    start += length;
                }
                const wanted = if (learner.options.ties == .pieces) numbers.len else 0;
                if (tokens.scripts.len != wanted) {
                    return .init(.value, "expected a script for each token", .{});
                }
                for (numbers[0..wanted], tokens.scripts) |id, script| learner.setScript(id, script);
            },
        }
        return null;
    }

    /// Whether the partitions have no words and no files, and there is a distinct file for each.
    fn takesFiles(self: *const Learner, files: []const u32) bool {
        switch (self.inner) {
            inline else => |*learner| {
                if (files.len < learner.shards.len) return false;
                for (learner.shards, 0..) |*shard, index| {
                    if (shard.words.count > 0 or shard.spill != null) return false;
                    const earlier = files[0..index];
                    if (std.mem.indexOfScalar(u32, earlier, files[index]) != null) return false;
                }
                return true;
            },
        }
    }

    /// Stores the words to be added in open files, a distinct one for each partition.
    pub fn spillTo(self: *Learner, files: []const u32) Error!void {
        if (self.is_closed) return error.Closed;
        if (!self.takesFiles(files)) return error.NoFileEach;
        errdefer self.is_closed = true;
        switch (self.inner) {
            inline else => |*learner| {
                for (learner.shards, files[0..learner.shards.len]) |*shard, file| {
                    self.rejected_file = file;
                    try shard.spillTo(@bitCast(file));
                }
            },
        }
    }

    /// Adds the pretokens of an inventory as words.
    pub fn addInventory(self: *Learner, inventory: *const counts.Inventory) AnyError!void {
        if (self.is_closed) return error.Closed;
        errdefer self.is_closed = true;
        switch (self.inner) {
            inline else => |*learner| try Adding(@TypeOf(learner)).all(self, learner, inventory),
        }
    }

    /// Adds the pretokens of a file of counts as words.
    pub fn addFile(self: *Learner, reader: *counts.Reader) AnyError!void {
        if (self.is_closed) return error.Closed;
        errdefer self.is_closed = true;
        reader.rewind();
        switch (self.inner) {
            inline else => |*learner| {
                var shard: usize = 0;
                while (try reader.next()) |entry| {
                    try self.account(try addEntry(&self.alphabet, learner, shard, entry));
                    shard = if (shard + 1 == learner.shards.len) 0 else shard + 1;
                }
            },
        }
    }

    /// Adds words of existing tokens, concatenated, with the length and the count of each.
    pub fn addWords(
        self: *Learner,
        ids: []const u32,
        lengths: []const u32,
        amounts: []const u64,
    ) Error!void {
        if (self.is_closed) return error.Closed;
        var total: u64 = 0;
        for (lengths) |length| total += length;
        if (lengths.len != amounts.len or total != ids.len) return error.InconsistentWords;
        errdefer self.is_closed = true;
        var start: usize = 0;
        switch (self.inner) {
            inline else => |*learner| for (lengths, amounts, 0..) |length, count, index| {
                const word = ids[start..][0..length];
                start += length;
                if (length < 2) continue;
                const most = std.mem.max(u32, word);
                if (most >= learner.options.first_id) return error.NoSuchId;
                learner.tokens_end = @max(learner.tokens_end, most + 1);
                try self.account(std.math.mul(u64, length, count) catch
                    return error.CountsTooLarge);
                const tokens = try learner.addWord(index % learner.shards.len, length, count);
                for (tokens, word) |*token, id| token.* = @intCast(id);
            },
        }
    }

    fn account(self: *Learner, pairs: u64) error{CountsTooLarge}!void {
        const sum = std.math.add(u64, self.pairs, pairs) catch return error.CountsTooLarge;
        if (sum > std.math.maxInt(i64)) return error.CountsTooLarge;
        self.pairs = sum;
    }

    /// Learns the merges, once.
    pub fn run(self: *Learner, poll: platform.threads.Poll) AnyError!void {
        if (self.is_closed) return error.Closed;
        self.is_closed = true;
        switch (self.inner) {
            inline else => |*learner| {
                learner.poll = poll;
                try learner.run();
            },
        }
    }

    /// Returns the merges so far. During `run` this may be called from the poll.
    pub fn learned(self: *const Learner) []const train.Learned {
        return switch (self.inner) {
            inline else => |*learner| learner.learned.items[0..learner.doneNow()],
        };
    }

    pub fn certificate(self: *const Learner) train.Certificate {
        return switch (self.inner) {
            inline else => |*learner| learner.certificate,
        };
    }

    /// Returns the size of the words and pairs in bytes.
    pub fn bytes(self: *const Learner) usize {
        return switch (self.inner) {
            inline else => |*learner| learner.bytes(),
        };
    }
};

/// Adds entries of an inventory to all partitions of a learner.
fn Adding(comptime Pointer: type) type {
    return struct {
        const Self = @This();

        alphabet: *const [256]u32,
        learner: Pointer,
        inventory: *const counts.Inventory,
        outcomes: []AnyError!u64,

        fn all(
            owner: *Learner,
            learner: Pointer,
            inventory: *const counts.Inventory,
        ) AnyError!void {
            const shards = learner.shards.len;
            const outcomes = try owner.gpa.alloc(AnyError!u64, shards);
            defer owner.gpa.free(outcomes);
            const self: Self = .{
                .alphabet = &owner.alphabet,
                .learner = learner,
                .inventory = inventory,
                .outcomes = outcomes,
            };
            platform.threads.run(shards, shards, self, addRange);
            for (outcomes) |outcome| try owner.account(try outcome);
        }

        fn addRange(self: Self, shard: usize) void {
            self.outcomes[shard] = self.pairsOf(shard);
        }

        /// Adds the entries of one partition and returns the number of their pairs.
        fn pairsOf(self: Self, shard: usize) AnyError!u64 {
            const lengths = self.inventory.lengths;
            const shards = self.learner.shards.len;
            var source = self.inventory.source();
            source.index = lengths.len * shard / shards;
            source.len = lengths.len * (shard + 1) / shards;
            for (lengths[0..source.index]) |length| source.start += length;
            var tokens: usize = 0;
            for (lengths[source.index..source.len]) |length| tokens += length;
            try self.learner.reserve(shard, source.len - source.index, tokens);
            var pairs: u64 = 0;
            while (try source.next()) |entry| {
                const more = try addEntry(self.alphabet, self.learner, shard, entry);
                pairs = std.math.add(u64, pairs, more) catch return error.CountsTooLarge;
            }
            return pairs;
        }
    };
}

/// Adds one word and returns an upper bound on the number of its pairs.
inline fn addEntry(
    alphabet: *const [256]u32,
    learner: anytype,
    shard: usize,
    entry: counts.Entry,
) AnyError!u64 {
    var len: u32 = 0;
    for (entry.bytes) |byte| len += @intFromBool(alphabet[byte] != no_id);
    if (len < 2) return 0;
    const tokens = try learner.addWord(shard, len, entry.count);
    var at: usize = 0;
    for (entry.bytes) |byte| {
        const id = alphabet[byte];
        if (id == no_id) continue;
        tokens[at] = @intCast(id);
        at += 1;
    }
    return std.math.mul(u64, len, entry.count) catch error.CountsTooLarge;
}
