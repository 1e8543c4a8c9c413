//! Pretoken counts → words of a learner, on all threads: `Learner.add` without the GIL.

const std = @import("std");
const platform = @import("../platform.zig");
const counts = @import("../count.zig");
const gpa = @import("buffer.zig").gpa;

/// In the alphabet: a byte that is dropped from words.
pub const no_id = std.math.maxInt(u32);

const AddError = counts.Error || error{CountsTooLarge};

/// Adds all entries on all threads, with adjacent entries in the same partition.
pub fn addInventory(
    state: anytype,
    learner: anytype,
    inventory: *const counts.Inventory,
) AddError!void {
    const Context = struct {
        state: @TypeOf(state),
        learner: @TypeOf(learner),
        inventory: *const counts.Inventory,
        outcomes: []AddError!u64,

        fn addRange(self: @This(), shard: usize) void {
            const lengths = self.inventory.lengths;
            const shards = self.learner.shards.len;
            var source = self.inventory.source();
            source.index = lengths.len * shard / shards;
            source.len = lengths.len * (shard + 1) / shards;
            for (lengths[0..source.index]) |length| source.start += length;
            var tokens: usize = 0;
            for (lengths[source.index..source.len]) |length| tokens += length;
            const words = source.len - source.index;
            self.learner.reserve(shard, words, tokens) catch |failure| {
                self.outcomes[shard] = failure;
                return;
            };
            self.outcomes[shard] = addTo(self.state, self.learner, shard, &source);
        }
    };
    const shards = learner.shards.len;
    const outcomes = try gpa.alloc(AddError!u64, shards);
    defer gpa.free(outcomes);
    const context: Context = .{
        .state = state,
        .learner = learner,
        .inventory = inventory,
        .outcomes = outcomes,
    };
    platform.threads.run(shards, shards, context, Context.addRange);
    for (outcomes) |outcome| try state.account(try outcome);
}

/// Adds entries to one partition and returns the number of their pairs.
fn addTo(state: anytype, learner: anytype, shard: usize, source: anytype) AddError!u64 {
    var pairs: u64 = 0;
    while (try source.next()) |entry| {
        pairs = std.math.add(u64, pairs, try addEntry(state, learner, shard, entry)) catch
            return error.CountsTooLarge;
    }
    return pairs;
}

pub fn addFile(state: anytype, learner: anytype, reader: *counts.Reader) AddError!void {
    reader.rewind();
    var shard: usize = 0;
    while (try reader.next()) |entry| {
        try state.account(try addEntry(state, learner, shard, entry));
        shard = if (shard + 1 == learner.shards.len) 0 else shard + 1;
    }
}

/// Adds one word and returns an upper bound on the number of its pairs.
inline fn addEntry(
    state: anytype,
    learner: anytype,
    shard: usize,
    entry: counts.Entry,
) AddError!u64 {
    var len: u32 = 0;
    for (entry.bytes) |byte| len += @intFromBool(state.alphabet[byte] != no_id);
    if (len < 2) return 0;
    const tokens = try learner.addWord(shard, len, entry.count);
    var at: usize = 0;
    for (entry.bytes) |byte| {
        const id = state.alphabet[byte];
        if (id == no_id) continue;
        tokens[at] = @intCast(id);
        at += 1;
    }
    return std.math.mul(u64, len, entry.count) catch error.CountsTooLarge;
}
