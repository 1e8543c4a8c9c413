//! Key → value in half a CPU cache line, read and written by any number of threads at once.
//!
//! A slot is a sequence lock. Its last word contains the kind of value and a version counter. A
//! writer marks the word first; other writers skip a marked slot. A reader compares the word before
//! and after it reads the rest. If the two differ, the lookup is a miss. Readers and writers never
//! block, and the result does not depend on which accesses the CPU performs atomically.
//!
//! An alternative from chess programs stores `key ^ value` and checks it against the value that was
//! read. It needs no memory ordering, but CPUs guarantee only atomic accesses of 8 bytes. Two
//! halves of different keys can form a third key: "absolute|ly" and "keyboard|s" yield "absolutes".
//! Atomic accesses of 16 bytes would not help. Ids differ in the same bits as letters, so the
//! difference of two ids can turn one word into another. A safe variant has to hash the value with
//! a secret, which takes about nine instructions. The second load takes two.
//!
//! **Invariant** a successful lookup returns a key and a value that were written together, unless
//! the slot is written 2^28 times during the lookup.

const std = @import("std");
const platform = @import("../platform.zig");
const examples = @import("../examples.zig").examples;

pub const Key = @Vector(16, u8);
pub const inline_max = 3;

/// Three words and their meaning.
pub const Value = struct {
    words: @Vector(4, u32),
    /// Number of words that are ids; 0 if the words locate an overflow ring buffer entry.
    count: u32,

    pub inline fn ofIds(ids: []const u32) Value {
        std.debug.assert(ids.len > 0 and ids.len <= inline_max);
        var words: [4]u32 = @splat(0);
        @memcpy(words[0..ids.len], ids);
        return .{ .words = words, .count = @intCast(ids.len) };
    }
};

/// The last word of a slot. It is 0 until the first write.
const State = packed struct(u32) {
    count: u2 = 0,
    is_record: bool = false,
    is_marked: bool = false,
    version: u28 = 0,
};

pub const Slot = extern struct {
    key: Key align(16),
    words: [4]u32 align(16),

    inline fn now(self: *const Slot) u32 {
        return @atomicLoad(u32, @as(*const volatile u32, &self.words[3]), .acquire);
    }
    inline fn stateNow(self: *const Slot) State {
        return @bitCast(self.now());
    }
    // Volatile, so that the compiler keeps the order and loads each value once.
    inline fn keyNow(self: *const Slot) Key {
        return @as(*const volatile Key, &self.key).*;
    }
    inline fn wordsNow(self: *const Slot) @Vector(4, u32) {
        return @as(*const volatile @Vector(4, u32), @ptrCast(&self.words)).*;
    }

    /// Returns a consistent copy of the words for a key, if the slot has that key.
    inline fn look(self: *const Slot, key: Key) ?struct { words: @Vector(4, u32), state: u32 } {
        const before = self.now();
        if (!equal(self.keyNow(), key)) return null;
        const words = self.wordsNow();
        platform.threads.fenceLoads();
        return if (self.now() == before) .{ .words = words, .state = before } else null;
    }

    /// Returns the ids of a key, if the slot contains them directly.
    pub inline fn idsOf(self: *const Slot, key: Key) ?Value {
        const seen = self.look(key) orelse return null;
        const count = seen.state & 3;
        return if (count == 0) null else .{ .words = seen.words, .count = count };
    }

    /// Returns the value of a key: ids, or the location of a ring buffer entry.
    pub inline fn valueOf(self: *const Slot, key: Key) ?Value {
        const seen = self.look(key) orelse return null;
        const state: State = @bitCast(seen.state);
        if (state.count == 0 and !state.is_record) return null;
        return .{ .words = seen.words, .count = state.count };
    }

    /// Whether the slot has the key. The answer may be outdated.
    pub inline fn has(self: *const Slot, key: Key) bool {
        return equal(self.keyNow(), key);
    }

    /// Whether the slot was never written.
    pub inline fn isNew(self: *const Slot) bool {
        return self.now() == 0;
    }

    /// Returns the location of the ring buffer entry, if the slot refers to one.
    pub inline fn record(self: *const Slot) ?@Vector(4, u32) {
        const before = self.now();
        if (!@as(State, @bitCast(before)).is_record) return null;
        const words = self.wordsNow();
        platform.threads.fenceLoads();
        return if (self.now() == before) words else null;
    }

    /// Marks the slot for the caller, until `write` or `restore`. Returns null if another thread
    /// has marked it.
    pub inline fn take(self: *Slot) ?Taken {
        const before = self.now();
        var state: State = @bitCast(before);
        if (state.is_marked) return null;
        state = .{ .is_marked = true, .version = state.version };
        const marked: u32 = @bitCast(state);
        if (@cmpxchgStrong(u32, &self.words[3], before, marked, .acquire, .monotonic) != null)
            return null;
        platform.threads.fenceStores();
        return .{ .slot = self, .before = @bitCast(before) };
    }

    pub const Taken = struct {
        slot: *Slot,
        before: State,

        pub inline fn key(self: Taken) Key {
            return self.slot.key;
        }
        /// Returns the value before the slot was marked; null if the slot was never written.
        pub inline fn value(self: Taken) ?Value {
            const state = self.before;
            if (state.count == 0 and !state.is_record) return null;
            return .{ .words = self.slot.words, .count = state.count };
        }

        pub inline fn write(self: Taken, new_key: Key, new_value: Value) void {
            @as(*volatile Key, &self.slot.key).* = new_key;
            const halves: [2]u64 = @bitCast(new_value.words);
            const low: *volatile u64 = @ptrCast(&self.slot.words);
            const third: *volatile u32 = &self.slot.words[2];
            low.* = halves[0];
            third.* = new_value.words[2];
            self.giveBack(.{
                .count = @intCast(new_value.count),
                .is_record = new_value.count == 0,
                .version = self.before.version +% 1,
            });
        }

        /// Removes the mark and keeps the old value.
        pub inline fn restore(self: Taken) void {
            self.giveBack(self.before);
        }

        inline fn giveBack(self: Taken, state: State) void {
            @atomicStore(u32, &self.slot.words[3], @bitCast(state), .release);
        }
    };
};

/// A bucket of two slots: one CPU cache line.
pub const Line = extern struct {
    front: Slot align(64),
    back: Slot,

    pub inline fn valueOf(self: *const Line, key: Key) ?Value {
        return self.front.valueOf(key) orelse self.back.valueOf(key);
    }
};

pub inline fn equal(a: Key, b: Key) bool {
    return @as(u16, @bitCast(a == b)) == 0xFFFF;
}

test "slots: a partly written slot is not found" {
    const keys = [_]Key{ @splat('a'), @splat('b') };
    const mixed: Key = @as([16]u8, keys[1])[0..8].* ++ @as([16]u8, keys[0])[8..16].*;
    var line: Line = std.mem.zeroes(Line);
    const slot = &line.front;
    for (keys) |key| try std.testing.expectEqual(null, slot.valueOf(key));
    try std.testing.expect(slot.isNew());
    slot.take().?.write(keys[0], .ofIds(&.{ 1, 2 }));
    try std.testing.expectEqual(2, slot.idsOf(keys[0]).?.count);
    const before = slot.now();
    const taken = slot.take().?;
    const new_key: [2]u64 = @bitCast(keys[1]);
    const halves: *[2]u64 = @ptrCast(&slot.key);
    for (0..5) |step| {
        switch (step) {
            0 => {},
            1, 2 => halves[step - 1] = new_key[step - 1],
            else => slot.words[step - 3] = 7,
        }
        for (keys ++ .{mixed}) |key| {
            try std.testing.expectEqual(null, slot.idsOf(key));
            try std.testing.expectEqual(null, slot.valueOf(key));
        }
        try std.testing.expectEqual(null, slot.record());
        try std.testing.expectEqual(null, slot.take());
    }
    taken.write(keys[1], .ofIds(&.{ 7, 7 }));
    // A reader that loaded the state before detects the change, even with the same number of ids.
    try std.testing.expect(slot.now() != before);
    try std.testing.expectEqual(null, slot.valueOf(keys[0]));
    try std.testing.expectEqual(.{ 7, 7, 0 }, @as([4]u32, slot.valueOf(keys[1]).?.words)[0..3].*);
}

test "slots: threads that write to one bucket never read a mixture" {
    const Context = struct {
        line: Line = std.mem.zeroes(Line),
        hits: std.atomic.Value(usize) = .init(0),
        mixtures: std.atomic.Value(usize) = .init(0),

        /// Keys that differ in each half, and ids that differ in as few bits as the keys.
        fn keyOf(number: u32) Key {
            return @bitCast([2]u64{ @as(u64, number & 3) << 32 | 0xFF, number >> 2 });
        }
        fn idsOf(number: u32) [3]u32 {
            return .{ number & 1, number >> 1 & 1, number >> 2 };
        }
        fn check(self: *@This(), value: Value, number: u32) void {
            const words: [4]u32 = value.words;
            const count = number % 4;
            const is_right = value.count == count and
                std.mem.eql(u32, words[0..@max(count, 1)], idsOf(number)[0..@max(count, 1)]);
            _ = (if (is_right) &self.hits else &self.mixtures).fetchAdd(1, .monotonic);
        }
        fn work(self: *@This(), job: usize) void {
            var prng: std.Random.DefaultPrng = .init(std.testing.random_seed +% job);
            const random = prng.random();
            for (0..examples(300_000)) |_| {
                const number = random.uintLessThan(u32, 16);
                const slot = if (random.boolean()) &self.line.front else &self.line.back;
                switch (random.uintLessThan(u8, 8)) {
                    0, 1 => if (slot.take()) |taken| taken.write(keyOf(number), .{
                        .words = idsOf(number) ++ .{0},
                        .count = number % 4,
                    }),
                    else => {
                        if (slot.idsOf(keyOf(number))) |value| self.check(value, number);
                        if (self.line.valueOf(keyOf(number))) |value| self.check(value, number);
                    },
                }
            }
        }
    };
    var context: Context = .{};
    platform.threads.run(4, 4, &context, Context.work);
    try std.testing.expectEqual(0, context.mixtures.raw);
    try std.testing.expect(context.hits.raw > 1000);
}
