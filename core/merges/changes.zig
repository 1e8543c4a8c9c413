//! Places of merges in words → what changes: which pairs lose and gain, and which words hold them.
//!
//! Beside each place a pair with an old token goes and one with the new token comes, as often. So
//! what changes is added up by the neighbour, in an array, and a pair is looked up once for a
//! merge and not once for each place. Who a pair belongs to reads what was written for it alone.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pairs_ = @import("pairs.zig");
const Pairs = pairs_.Pairs;
const queue = @import("queue.zig");
const Merge = @import("search.zig").Merge;
const Word = @import("words.zig").Word;

/// A pair with a new token, as one merge has made it here.
pub const Gain = struct {
    pair: u64,
    /// Where it is seen first, if the ties need it.
    seen: u64,
    side: Side,
    /// Never merged.
    is_barred: bool,
    /// Words that hold it from now on, and the last of them that has several places.
    words: u32 = 0,
    last_word: Word = std.math.maxInt(Word),
    /// The answer of its owner: where it is kept, and where its next word goes.
    slot: pairs_.Slot = pairs_.no_slot,
    cursor: [*]Word = undefined,
};

/// Where the neighbour stands; `both` are two new tokens, of two places side by side.
pub const Side = enum(u8) { left, right, both };

/// A word that holds a pair from now on.
const Gathered = struct { gain: u32, word: Word };

/// What a merge did beside one neighbour.
const Around = struct {
    amount: u64 = 0,
    gain: u32 = none,
    words: u32 = 0,
};

const none = std.math.maxInt(u32);
/// In the number of a gain: nobody asks for its words.
const barred_flag = 1 << 31;

pub const Changes = struct {
    gpa: Allocator,
    /// By owner.
    gained: []std.ArrayList(pairs_.Gain),
    lost: []std.ArrayList(pairs_.Loss),
    gains: std.ArrayList(Gain) = .empty,
    gathered: std.ArrayList(Gathered) = .empty,
    lefts: []Around,
    rights: []Around,
    both: Around = .{},
    /// What was between places side by side.
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

    /// All was read by those it is for.
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

    /// Adds one place of a word; whoever knows that the word has the pair nowhere else gathers it.
    /// There is room for that.
    pub inline fn add(self: *Changes, to: *Around, word: Word, count: u64, gathers: bool) void {
        to.amount += count;
        if (to.gain >= barred_flag or !gathers) return;
        to.words += 1;
        self.gathered.appendAssumeCapacity(.{ .gain = to.gain, .word = word });
    }

    pub inline fn isNew(to: *const Around) bool {
        return to.gain == none;
    }

    /// The first place beside a neighbour.
    pub fn begin(self: *Changes, to: *Around, gain: Gain) Allocator.Error!void {
        try self.gains.append(self.gpa, gain);
        to.gain = @intCast(self.gains.items.len - 1);
        std.debug.assert(to.gain < barred_flag);
        if (gain.is_barred) to.gain |= barred_flag;
    }

    /// Whether a word of several places is to be gathered for a pair: the first time.
    pub fn isFirstIn(self: *Changes, to: *const Around, word: Word) bool {
        const gain = &self.gains.items[to.gain & ~@as(u32, barred_flag)];
        defer gain.last_word = word;
        return gain.last_word != word;
    }

    /// Ends a merge that began with gain `begun`: tells the owners, and forgets the neighbours.
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

/// Losses whose pairs are on their way from memory.
const ahead = 8;

/// Applies what all shards say to the pairs of owner `at`, and answers which gains are kept.
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
