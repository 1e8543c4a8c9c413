//! Changes of counts → the tracked pairs with their counts, and the best of them.
//!
//! Pairs are distributed by hash. Each thread has its own `Pairs`, and no other thread writes to it
//! while changes are applied. Each pair has a slot, by which the partitions identify its words. A
//! free slot is reused only after all partitions have released its words.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const queue_ = @import("queue.zig");
const Order = queue_.Order;

pub const Slot = u32;
pub const no_slot: Slot = std.math.maxInt(Slot);

/// The gain of a pair in one partition.
pub const Gain = struct {
    pair: u64,
    amount: u64,
    /// First occurrence, if the tie-breaking rule needs it.
    seen: u64 = 0,
    /// Its index in the partition, if the partition has words for it.
    number: u32 = no_number,

    pub const no_number = std.math.maxInt(u32);
};

/// The loss of a pair in one partition.
pub const Loss = struct { pair: u64, amount: u64 };

pub fn ownerOf(pair: u64, owners: usize) usize {
    // Uses other bits than the index. Otherwise all pairs of an owner would share a part of it.
    return @intCast(((hash(pair) & std.math.maxInt(u32)) * owners) >> 32);
}

/// Upper bounds on the counts of all pairs. Each pair adds to one of the sums, which it shares with
/// others.
pub const Sketch = struct {
    sums: []u64 = &.{},

    const len_max = 1 << 22;

    /// Allocates sums for about this many pairs.
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

    /// Thread-safe.
    pub inline fn add(self: Sketch, pair: u64, count: u64) void {
        platform.threads.addTo(&self.sums[self.placeOf(pair)], count);
    }

    /// Whether a pair may have at least this count. True without sums.
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
    /// Slots by hash, with linear probing and without gaps.
    index: []Slot = &.{},
    shift: u6 = 0,
    taken: usize = 0,
    queue: queue_.Queue = .{},
    /// New pairs since the last batch.
    born: std.ArrayList(Slot) = .empty,
    /// Pairs whose count fell below the minimum tracked count at some point.
    fallen: std.ArrayList(Slot) = .empty,
    /// Slots freed since the last batch. The partitions still have words for them.
    freed: std.ArrayList(Slot) = .empty,
    free: std.ArrayList(Slot) = .empty,
    /// Whether an existing token can be produced again, so that counts may rise.
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

    /// Removes all pairs and everything that the partitions have for them.
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

    /// Whether a slot still has this pair.
    pub fn holds(self: *const Pairs, slot: Slot, pair: u64) bool {
        return self.records.items[slot].pair == pair;
    }

    inline fn home(self: *const Pairs, pair: u64) usize {
        return @intCast(hash(pair) >> self.shift);
    }

    /// Begins a batch. By now every partition has released the words of freed slots.
    pub fn begin(self: *Pairs, gpa: Allocator) Allocator.Error!void {
        try self.free.appendSlice(gpa, self.freed.items);
        self.freed.clearRetainingCapacity();
        self.born.clearRetainingCapacity();
        self.fallen.clearRetainingCapacity();
    }

    /// Adds new pairs that reach the minimum tracked count, with the sum of all partitions, and
    /// sets their slots. The others are dropped.
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

    /// Prefetches the first access of `lose`.
    pub inline fn prepare(self: *const Pairs, pair: u64) void {
        if (self.index.len > 0) @prefetch(&self.index[self.home(pair)], .{});
    }

    pub fn lose(self: *Pairs, gpa: Allocator, loss: Loss, floor: u64) Allocator.Error!void {
        const slot = self.find(loss.pair) orelse return;
        const record = &self.records.items[slot];
        // Cannot underflow, because counts are exact.
        record.count -= loss.amount;
        if (record.count < floor) try self.fallen.append(gpa, slot);
    }

    /// Ends a batch: drops pairs below the minimum tracked count, and queues new ones.
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

    /// Drops all pairs below the minimum tracked count, including unchanged ones.
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

    /// Removes a pair. Its slot stays unused until the next batch has begun.
    pub fn remove(self: *Pairs, gpa: Allocator, slot: Slot) Allocator.Error!void {
        try self.freed.append(gpa, slot);
        const mask = self.index.len - 1;
        var gap = self.home(self.records.items[slot].pair);
        while (self.index[gap] != slot) gap = (gap + 1) & mask;
        // Later entries move up, unless that would put them before their home.
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

/// New pairs of a batch, before it is decided which of them are kept.
pub const Births = struct {
    entries: std.ArrayList(Birth) = .empty,
    /// By hash: the index of an entry plus one.
    index: []u32 = &.{},
    shift: u6 = 0,

    pub const Birth = struct { pair: u64, count: u64, seen: u64, slot: Slot = no_slot };

    pub fn deinit(self: *Births, gpa: Allocator) void {
        self.entries.deinit(gpa);
        gpa.free(self.index);
    }

    /// Starts a new batch, with capacity for this many pairs.
    pub fn begin(self: *Births, gpa: Allocator, pairs: usize) Allocator.Error!void {
        const len = std.math.ceilPowerOfTwoAssert(usize, @max(1024, 2 * pairs));
        // A much larger index would have to be cleared each time.
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

    /// Adds a gain and returns the index of its pair.
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

test "pairs: counts add up, and pairs below the minimum tracked count are dropped" {
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
            // A dropped pair stays dropped here. In training it never reappears.
            const is_new = round == 0 and expected[pair] == 0;
            if (!is_new and expected[pair] < floor) continue;
            const gains = round == 0 or random.uintLessThan(u8, 3) == 0;
            const amount = if (gains) random.uintLessThan(u64, 30) else expected[pair] / 2;
            if (gains) {
                try births.begin(gpa, 2);
                // Two partitions have a share of it each.
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
