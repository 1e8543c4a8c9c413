//! Merge positions in words → changes: the pairs that lose and gain counts, and their words.
//!
//! At each position a pair with an old token disappears and one with the new token appears, equally
//! often. Changes are therefore summed up per neighbour in an array, and a pair is looked up once
//! per merge, not once per position. Each owner reads only the changes that were recorded for it.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pairs_ = @import("pairs.zig");
const Pairs = pairs_.Pairs;
const queue = @import("queue.zig");
const Merge = @import("search.zig").Merge;
const Word = @import("words.zig").Word;

/// A pair with a new token, produced by one merge in this partition.
pub const Gain = struct {
    pair: u64,
    /// First occurrence, if the tie-breaking rule needs it.
    seen: u64,
    side: Side,
    /// Never merged.
    is_barred: bool,
    /// Number of words that contain it, and the last of them with several positions.
    words: u32 = 0,
    last_word: Word = std.math.maxInt(Word),
    /// The owner's answer: the slot of the pair, and the position of its next word.
    slot: pairs_.Slot = pairs_.no_slot,
    cursor: [*]Word = undefined,
};

/// Side of the neighbour. `both` are two new tokens from adjacent positions.
pub const Side = enum(u8) { left, right, both };

/// A word that now contains a pair.
const Gathered = struct { gain: u32, word: Word };

/// The effect of a merge next to one neighbour.
const Around = struct {
    amount: u64 = 0,
    gain: u32 = none,
    words: u32 = 0,
};

const none = std.math.maxInt(u32);
/// Flag in the index of a gain: its words are not needed.
const barred_flag = 1 << 31;

pub const Changes = struct {
    gpa: Allocator,
    /// Indexed by owner.
    gained: []std.ArrayList(pairs_.Gain),
    lost: []std.ArrayList(pairs_.Loss),
    gains: std.ArrayList(Gain) = .empty,
    gathered: std.ArrayList(Gathered) = .empty,
    lefts: []Around,
    rights: []Around,
    both: Around = .{},
    /// Count of the pairs between adjacent positions.
    between: u64 = 0,

    pub fn init(gpa: Allocator, owners: usize, ids_end: usize) Allocator.Error!Changes {
        const gained = try gpa.alloc(std.ArrayList(pairs_.Gain), owners);
        errdefer gpa.free(gained);
        @memset(gained, .empty);
        const lost = try gpa.alloc(std.ArrayList(pairs_.Loss), owners);
        errdefer gpa.free(lost);
        @memset(lost, .empty);
        const places = try gpa.alloc(Around, 2 * ids_end);
        @memset(places, .{});
        return .{
            .gpa = gpa,
            .gained = gained,
            .lost = lost,
            .lefts = places[0..ids_end],
            .rights = places[ids_end..],
        };
    }

    pub fn deinit(self: *Changes) void {
        for (self.gained) |*some| some.deinit(self.gpa);
        self.gpa.free(self.gained);
        for (self.lost) |*some| some.deinit(self.gpa);
        self.gpa.free(self.lost);
        self.gains.deinit(self.gpa);
        self.gathered.deinit(self.gpa);
        self.gpa.free(self.lefts.ptr[0 .. 2 * self.lefts.len]);
    }

    /// Must be called after all owners have read the changes.
    pub fn clear(self: *Changes) void {
        for (self.gained) |*some| some.clearRetainingCapacity();
        for (self.lost) |*some| some.clearRetainingCapacity();
        self.gains.clearRetainingCapacity();
        self.gathered.clearRetainingCapacity();
    }

    pub fn free(self: *Changes) void {
        for (self.gained) |*some| some.clearAndFree(self.gpa);
        for (self.lost) |*some| some.clearAndFree(self.gpa);
        self.gains.clearAndFree(self.gpa);
        self.gathered.clearAndFree(self.gpa);
    }

    pub inline fn around(self: *Changes, comptime side: Side, neighbour: u32) *Around {
        return switch (side) {
            .left => &self.lefts[neighbour],
            .right => &self.rights[neighbour],
            .both => &self.both,
        };
    }

    /// Adds one position of a word. The caller sets `gathers` for the first occurrence of the pair
    /// in the word. The list must have capacity for the word.
    pub inline fn add(self: *Changes, to: *Around, word: Word, count: u64, gathers: bool) void {
        to.amount += count;
        if (to.gain >= barred_flag or !gathers) return;
        to.words += 1;
        self.gathered.appendAssumeCapacity(.{ .gain = to.gain, .word = word });
    }

    pub inline fn isNew(to: *const Around) bool {
        return to.gain == none;
    }

    /// Starts the changes next to a neighbour.
    pub fn begin(self: *Changes, to: *Around, gain: Gain) Allocator.Error!void {
        try self.gains.append(self.gpa, gain);
        to.gain = @intCast(self.gains.items.len - 1);
        std.debug.assert(to.gain < barred_flag);
        if (gain.is_barred) to.gain |= barred_flag;
    }

    /// Whether a word with several positions is to be listed for a pair, which happens once.
    pub fn isFirstIn(self: *Changes, to: *const Around, word: Word) bool {
        const gain = &self.gains.items[to.gain & ~@as(u32, barred_flag)];
        defer gain.last_word = word;
        return gain.last_word != word;
    }

    /// Ends a merge that began with gain `begun`: records the changes for the owners, and resets
    /// the neighbours.
    pub fn end(self: *Changes, begun: usize, one: Merge) Allocator.Error!void {
        for (self.gains.items[begun..], begun..) |*gain, number| {
            const left, const right = .{ queue.leftOf(gain.pair), queue.rightOf(gain.pair) };
            const lost: ?u64, const place = switch (gain.side) {
                .left => .{ queue.pairOf(left, one.left), &self.lefts[left] },
                .right => .{ queue.pairOf(one.right, right), &self.rights[right] },
                .both => .{ null, &self.both },
            };
            const said = place.*;
            place.* = .{};
            gain.words = said.words;
            if (lost) |pair| try self.lose(pair, said.amount);
            if (!gain.is_barred) try self.tell(.{
                .pair = gain.pair,
                .amount = said.amount,
                .seen = gain.seen,
                .number = @intCast(number),
            });
        }
        if (self.between == 0) return;
        try self.lose(queue.pairOf(one.right, one.left), self.between);
        self.between = 0;
    }

    pub fn tell(self: *Changes, gain: pairs_.Gain) Allocator.Error!void {
        try self.gained[pairs_.ownerOf(gain.pair, self.gained.len)].append(self.gpa, gain);
    }

    pub fn lose(self: *Changes, pair: u64, amount: u64) Allocator.Error!void {
        const loss: pairs_.Loss = .{ .pair = pair, .amount = amount };
        try self.lost[pairs_.ownerOf(pair, self.lost.len)].append(self.gpa, loss);
    }
};

/// Number of losses whose pairs are prefetched.
const ahead = 8;

/// Applies the changes of all partitions to the pairs of owner `at`, and records which gains are
/// kept.
pub fn apply(shards: anytype, owner: *Pairs, at: usize, floor: u64) Allocator.Error!void {
    const gpa = shards[0].gpa;
    var gains: usize = 0;
    for (shards) |*shard| gains += shard.changes.gained[at].items.len;
    const births = &owner.births;
    try births.begin(gpa, gains);
    for (shards) |*shard| for (shard.changes.gained[at].items) |gain| {
        const place = births.add(gain);
        if (gain.number != pairs_.Gain.no_number) {
            shard.changes.gains.items[gain.number].slot = place;
        }
    };
    try owner.bear(gpa, births, floor);
    for (shards) |*shard| for (shard.changes.gained[at].items) |gain| {
        if (gain.number == pairs_.Gain.no_number) continue;
        const slot = &shard.changes.gains.items[gain.number].slot;
        slot.* = births.entries.items[slot.*].slot;
    };
    for (shards) |*shard| {
        const lost = shard.changes.lost[at].items;
        for (lost, 0..) |loss, number| {
            if (number + ahead < lost.len) owner.prepare(lost[number + ahead].pair);
            try owner.lose(gpa, loss, floor);
        }
    }
}
