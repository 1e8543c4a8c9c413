//! Changes of counts → pairs: those worth remembering, with their counts, and the best of them.
//!
//! Pairs are dealt out by their hash: each thread has its own `Pairs`, and nobody else writes to
//! them while changes are applied. A pair has a slot, by which the shards know its words; a slot
//! that becomes free is used again only when they have all seen that.

const std = @import("std");
const Allocator = std.mem.Allocator;
const queue_ = @import("queue.zig");
const Order = queue_.Order;

pub const Slot = u32;
pub const no_slot: Slot = std.math.maxInt(Slot);

/// What one shard says about a pair that comes.
pub const Gain = struct {
    pair: u64,
    amount: u64,
    /// Where it is seen first, if the ties need it.
    seen: u64 = 0,
    /// Its number in the shard, if that has words for it.
    number: u32 = no_number,

    pub const no_number = std.math.maxInt(u32);
};

/// And about one that goes.
pub const Loss = struct { pair: u64, amount: u64 };

pub fn ownerOf(pair: u64, owners: usize) usize {
    // By other bits than those of the index: or all pairs of an owner would crowd in a part of it.
    return @intCast(((hash(pair) & std.math.maxInt(u32)) * owners) >> 32);
}

/// Upper bounds of the counts of all pairs: each adds to one of the sums, which it shares with
/// others.
pub const Sketch = struct {
    sums: []u64 = &.{},

    const len_max = 1 << 22;

    /// For about so many pairs.
    pub fn init(gpa: Allocator, pairs: usize) Allocator.Error!Sketch {
        const wanted = std.math.clamp(pairs, 2, len_max);
        const sums = try gpa.alloc(u64, std.math.floorPowerOfTwo(usize, wanted));
        @memset(sums, 0);
        return .{ .sums = sums };
    }

    pub fn deinit(self: *Sketch, gpa: Allocator) void {
        gpa.free(self.sums);
        self.* = .{};
    }

    inline fn placeOf(self: Sketch, pair: u64) usize {
        return @intCast(hash(pair) & (self.sums.len - 1));
    }

    /// From any thread.
    pub inline fn add(self: Sketch, pair: u64, count: u64) void {
        _ = @atomicRmw(u64, &self.sums[self.placeOf(pair)], .Add, count, .monotonic);
    }

    /// Whether a pair may have such a count; without sums it may.
    pub inline fn mayReach(self: Sketch, pair: u64, count: u64) bool {
        return self.sums.len == 0 or self.sums[self.placeOf(pair)] >= count;
    }
};

inline fn hash(pair: u64) u64 {
    const product = (pair ^ 0x9E37_79B9_7F4A_7C15) *% 0xD6E8_FEB8_6659_FD93;
    return (product ^ product >> 32) *% 0xD6E8_FEB8_6659_FD93;
}

pub const Pairs = struct {
    records: std.ArrayList(Record) = .empty,
    births: Births = .{},
    /// Slots by hash, without gaps between an entry and where its hash would have it.
    index: []Slot = &.{},
    shift: u6 = 0,
    taken: usize = 0,
    queue: queue_.Queue = .{},
    /// New since the last batch.
    born: std.ArrayList(Slot) = .empty,
    /// Below the floor, at least for a moment of it.
    fallen: std.ArrayList(Slot) = .empty,
    /// Without a pair since the last batch: the shards still have words for them.
    freed: std.ArrayList(Slot) = .empty,
    free: std.ArrayList(Slot) = .empty,
    /// Whether a token that already exists can be made again, so that counts of pairs may rise.
    revives: bool = false,

    const Record = struct {
        pair: u64,
        count: u64,
        seen: u64,

        const gone = std.math.maxInt(u64);

        pub fn isGone(self: Record) bool {
            return self.pair == gone;
        }
    };

    pub fn deinit(self: *Pairs, gpa: Allocator) void {
        self.records.deinit(gpa);
        self.births.deinit(gpa);
        gpa.free(self.index);
        self.queue.deinit(gpa);
        self.born.deinit(gpa);
        self.fallen.deinit(gpa);
        self.freed.deinit(gpa);
        self.free.deinit(gpa);
    }

    /// Forgets all pairs, and all that the shards have for them.
    pub fn clear(self: *Pairs) void {
        self.records.clearRetainingCapacity();
        @memset(self.index, no_slot);
        self.taken = 0;
        self.queue.entries.clearRetainingCapacity();
        self.born.clearRetainingCapacity();
        self.fallen.clearRetainingCapacity();
        self.freed.clearRetainingCapacity();
        self.free.clearRetainingCapacity();
    }

    pub fn bytes(self: *const Pairs) usize {
        return self.records.capacity * @sizeOf(Record) + self.index.len * @sizeOf(Slot) +
            self.queue.entries.capacity * @sizeOf(queue_.Entry) +
            self.births.entries.capacity * @sizeOf(Births.Birth) +
            self.births.index.len * @sizeOf(u32);
    }

    pub fn countOf(self: *const Pairs, pair: u64) ?u64 {
        return self.records.items[self.find(pair) orelse return null].count;
    }

    pub fn find(self: *const Pairs, pair: u64) ?Slot {
        if (self.index.len == 0) return null;
        var at = self.home(pair);
        while (true) : (at = (at + 1) & (self.index.len - 1)) {
            const slot = self.index[at];
            if (slot == no_slot) return null;
            if (self.records.items[slot].pair == pair) return slot;
        }
    }

    /// Whether the pair of a slot is still there.
    pub fn holds(self: *const Pairs, slot: Slot, pair: u64) bool {
        return self.records.items[slot].pair == pair;
    }

    inline fn home(self: *const Pairs, pair: u64) usize {
        return @intCast(hash(pair) >> self.shift);
    }

    /// Begins a batch: by now every shard has given up the words of what was freed.
    pub fn begin(self: *Pairs, gpa: Allocator) Allocator.Error!void {
        try self.free.appendSlice(gpa, self.freed.items);
        self.freed.clearRetainingCapacity();
        self.born.clearRetainingCapacity();
        self.fallen.clearRetainingCapacity();
    }

    /// Keeps new pairs that reach the floor, with what all shards say about them; the others are
    /// gone before they were here. Tells each its slot.
    pub fn bear(self: *Pairs, gpa: Allocator, births: *Births, floor: u64) Allocator.Error!void {
        for (births.entries.items) |*birth| {
            const found = if (self.revives) self.find(birth.pair) else null;
            if (found) |slot| {
                const record = &self.records.items[slot];
                record.count += birth.count;
                record.seen = @min(record.seen, birth.seen);
                try self.born.append(gpa, slot);
                birth.slot = slot;
            } else if (birth.count >= @max(1, floor)) birth.slot = try self.add(gpa, .{
                .pair = birth.pair,
                .count = birth.count,
                .seen = birth.seen,
            });
        }
    }

    /// Fetches what `lose` looks at first.
    pub inline fn prepare(self: *const Pairs, pair: u64) void {
        if (self.index.len > 0) @prefetch(&self.index[self.home(pair)], .{});
    }

    pub fn lose(self: *Pairs, gpa: Allocator, loss: Loss, floor: u64) Allocator.Error!void {
        const slot = self.find(loss.pair) orelse return;
        const record = &self.records.items[slot];
        // What is lost was there: counts are exact.
        record.count -= loss.amount;
        if (record.count < floor) try self.fallen.append(gpa, slot);
    }

    /// Ends a batch: pairs below the floor are forgotten, new ones wait for their turn.
    pub fn settle(self: *Pairs, gpa: Allocator, order: Order, floor: u64) Allocator.Error!void {
        for (self.born.items) |slot| {
            const record = self.records.items[slot];
            if (record.isGone()) continue;
            if (isKept(record, floor)) try self.queue.push(gpa, order, .{
                .count = record.count,
                .pair = record.pair,
                .seen = record.seen,
            }) else try self.remove(gpa, slot);
        }
        for (self.fallen.items) |slot| {
            const record = self.records.items[slot];
            if (!record.isGone() and !isKept(record, floor)) try self.remove(gpa, slot);
        }
    }

    /// Forgets all pairs below the floor, also those that nothing happened to.
    pub fn sweep(self: *Pairs, gpa: Allocator, floor: u64) Allocator.Error!void {
        for (self.records.items, 0..) |record, slot| {
            if (!record.isGone() and !isKept(record, floor)) try self.remove(gpa, @intCast(slot));
        }
    }

    fn isKept(record: Record, floor: u64) bool {
        return record.count >= @max(1, floor);
    }

    fn add(self: *Pairs, gpa: Allocator, record: Record) Allocator.Error!Slot {
        if ((self.taken + 1) * 2 > self.index.len) try self.grow(gpa);
        try self.born.ensureUnusedCapacity(gpa, 1);
        const slot = self.free.pop() orelse blk: {
            try self.records.append(gpa, record);
            break :blk @as(Slot, @intCast(self.records.items.len - 1));
        };
        self.records.items[slot] = record;
        self.put(slot);
        self.taken += 1;
        self.born.appendAssumeCapacity(slot);
        return slot;
    }

    fn put(self: *Pairs, slot: Slot) void {
        var at = self.home(self.records.items[slot].pair);
        while (self.index[at] != no_slot) at = (at + 1) & (self.index.len - 1);
        self.index[at] = slot;
    }

    fn grow(self: *Pairs, gpa: Allocator) Allocator.Error!void {
        const larger = try gpa.alloc(Slot, @max(1024, 2 * self.index.len));
        @memset(larger, no_slot);
        const old = self.index;
        self.index = larger;
        self.shift = @intCast(64 - @as(u7, std.math.log2_int(usize, larger.len)));
        for (old) |slot| if (slot != no_slot) self.put(slot);
        gpa.free(old);
    }

    /// Forgets a pair; its slot rests until the next batch has begun.
    pub fn remove(self: *Pairs, gpa: Allocator, slot: Slot) Allocator.Error!void {
        try self.freed.append(gpa, slot);
        const mask = self.index.len - 1;
        var gap = self.home(self.records.items[slot].pair);
        while (self.index[gap] != slot) gap = (gap + 1) & mask;
        // Entries behind it move up, as long as that brings them no nearer than their home.
        var at = gap;
        while (true) {
            at = (at + 1) & mask;
            const other = self.index[at];
            if (other == no_slot) break;
            const away = (at -% self.home(self.records.items[other].pair)) & mask;
            if (away < ((at -% gap) & mask)) continue;
            self.index[gap] = other;
            gap = at;
        }
        self.index[gap] = no_slot;
        self.records.items[slot].pair = Record.gone;
        self.taken -= 1;
    }
};

/// New pairs of a batch, before it is known which of them are kept.
pub const Births = struct {
    entries: std.ArrayList(Birth) = .empty,
    /// By hash: one past the place of an entry.
    index: []u32 = &.{},
    shift: u6 = 0,

    pub const Birth = struct { pair: u64, count: u64, seen: u64, slot: Slot = no_slot };

    pub fn deinit(self: *Births, gpa: Allocator) void {
        self.entries.deinit(gpa);
        gpa.free(self.index);
    }

    /// Begins anew, with room for so many pairs.
    pub fn begin(self: *Births, gpa: Allocator, pairs: usize) Allocator.Error!void {
        const len = std.math.ceilPowerOfTwoAssert(usize, @max(1024, 2 * pairs));
        // Much more than is needed would have to be cleared each time.
        if (self.index.len < len or self.index.len > 16 * len) {
            gpa.free(self.index);
            self.index = &.{};
            self.entries.clearAndFree(gpa);
            self.index = try gpa.alloc(u32, len);
            self.shift = @intCast(64 - @as(u7, std.math.log2_int(usize, len)));
        }
        @memset(self.index, 0);
        self.entries.clearRetainingCapacity();
        try self.entries.ensureTotalCapacity(gpa, pairs);
    }

    /// Adds a gain and returns the place of its pair.
    pub fn add(self: *Births, gain: Gain) u32 {
        var at: usize = @intCast(hash(gain.pair) >> self.shift);
        while (self.index[at] != 0) : (at = (at + 1) & (self.index.len - 1)) {
            const birth = &self.entries.items[self.index[at] - 1];
            if (birth.pair != gain.pair) continue;
            birth.count += gain.amount;
            birth.seen = @min(birth.seen, gain.seen);
            return self.index[at] - 1;
        }
        self.entries.appendAssumeCapacity(.{
            .pair = gain.pair,
            .count = gain.amount,
            .seen = gain.seen,
        });
        self.index[at] = @intCast(self.entries.items.len);
        return self.index[at] - 1;
    }
};

test "pairs: counts add up, what falls below the floor is gone" {
    const gpa = std.testing.allocator;
    var prng: std.Random.DefaultPrng = .init(std.testing.random_seed);
    const random = prng.random();
    var texts: queue_.Texts = try .init(gpa, 0);
    defer texts.deinit(gpa);
    const order: Order = .{ .ties = .ids, .texts = &texts };
    var pairs: Pairs = .{ .revives = true };
    defer pairs.deinit(gpa);
    var births: Births = .{};
    defer births.deinit(gpa);
    var expected: [4000]u64 = @splat(0);
    const floor = 5;
    for (0..200) |round| {
        try pairs.begin(gpa);
        for (0..40) |_| {
            const pair = random.uintLessThan(u64, expected.len);
            // A pair that was forgotten stays so here; in training it never comes again.
            if (round > 0 and expected[pair] < floor) continue;
            const gains = round == 0 or random.uintLessThan(u8, 3) == 0;
            const amount = if (gains) random.uintLessThan(u64, 30) else expected[pair] / 2;
            if (gains) {
                try births.begin(gpa, 2);
                // Two shards have a part of it each.
                _ = births.add(.{ .pair = pair, .amount = amount / 3 });
                _ = births.add(.{ .pair = pair, .amount = amount - amount / 3 });
                try std.testing.expectEqual(1, births.entries.items.len);
                try pairs.bear(gpa, &births, floor);
            } else try pairs.lose(gpa, .{ .pair = pair, .amount = amount }, floor);
            expected[pair] = if (gains) expected[pair] + amount else expected[pair] - amount;
        }
        try pairs.settle(gpa, order, floor);
        var kept: usize = 0;
        for (expected, 0..) |count, pair| {
            const wanted: ?u64 = if (count < floor) null else count;
            try std.testing.expectEqual(wanted, pairs.countOf(pair));
            kept += @intFromBool(wanted != null);
        }
        try std.testing.expectEqual(kept, pairs.taken);
    }
}
