//! The caches of all tokenizers in the process, within one memory limit.
//!
//! A tokenizer has one table. All threads that encode with it share the table and find each other's
//! entries. The table is kept while it is idle. It is freed when another tokenizer needs the
//! memory. Without memory for a table, encoding works uncached and gives the same ids.

const std = @import("std");
const platform = @import("../platform.zig");
const Backoff = platform.threads.Backoff;
const examples = @import("../examples.zig").examples;
const Cache = @import("../cache.zig").Cache;
const Table = @import("../cache.zig").Table;
const table_bytes_max = @import("../cache.zig").table_bytes_max;

var limit: std.atomic.Value(usize) = .init(64 << 20);
/// Total size of all tables in bytes.
var used: std.atomic.Value(usize) = .init(0);
/// Head of the linked list of all tokenizers.
var first: ?*Caches = null;
var registry: Lock = .{};

/// Sets the memory limit of all caches in the process. Tables in use keep their size; idle tables
/// are freed.
pub fn setLimit(bytes: usize) void {
    limit.store(bytes, .seq_cst);
    reclaim();
}

pub fn getLimit() usize {
    return limit.load(.seq_cst);
}

/// Critical sections are short, but the owner may be preempted inside one.
const Lock = struct {
    is_taken: std.atomic.Value(bool) = .init(false),

    fn take(self: *Lock) void {
        var backoff: Backoff = .{};
        while (self.is_taken.swap(true, .acquire)) backoff.pause();
    }
    fn give(self: *Lock) void {
        self.is_taken.store(false, .release);
    }
};

/// The table of one tokenizer and the number of its users. Must not move while it is registered.
pub const Caches = struct {
    seed: u64 = 0,
    state: std.atomic.Value(u32) = .init(@bitCast(State{})),
    /// Written only by the thread that has closed it. Never points to freed memory.
    table: ?*Table = null,
    next: ?*Caches = null,

    const State = packed struct(u32) {
        users: u30 = 0,
        has_table: bool = false,
        /// Whether a thread creates or frees the table. Meanwhile the table has no users.
        is_closed: bool = false,
    };

    pub fn register(self: *Caches) void {
        registry.take();
        defer registry.give();
        self.next = first;
        first = self;
    }

    /// Must be called when the table has no users. After a fork, users in the parent do not count.
    pub fn deinit(self: *Caches) void {
        registry.take();
        defer registry.give();
        var place = &first;
        while (place.*) |other| : (place = &other.next) {
            if (other != self) continue;
            place.* = self.next;
            break;
        }
        const state: State = @bitCast(self.state.load(.seq_cst));
        platform.check(state.users == 0, "a cache without users is freed");
        if (self.table) |table| destroy(table);
    }

    /// Returns the table for an encoding thread, or null if memory is insufficient.
    pub fn take(self: *Caches) ?Cache {
        var backoff: Backoff = .{};
        while (true) : (backoff.pause()) {
            var state: State = @bitCast(self.state.load(.monotonic));
            if (state.is_closed) continue;
            if (state.has_table) {
                // The limit was lowered. The table is freed when its last user leaves.
                if (used.load(.seq_cst) > getLimit()) {
                    self.freeIdle();
                    if (self.state.load(.monotonic) == @as(u32, @bitCast(state))) return null;
                    continue;
                }
                const before = state;
                state.users += 1;
                if (!self.change(before, state)) continue;
                const table = self.table.?;
                if (before.users > 0 or !couldGrow(table) or !self.close(state)) return .of(table);
                self.table = null;
                destroy(table);
                return self.open();
            }
            if (self.close(state)) return self.open();
        }
    }

    pub fn put(self: *Caches, cache: *Cache) void {
        cache.tell();
        _ = self.state.fetchSub(1, .seq_cst);
        if (used.load(.seq_cst) > getLimit()) self.freeIdle();
    }

    fn change(self: *Caches, before: State, after: State) bool {
        const bits: u32 = @bitCast(before);
        return self.state.cmpxchgStrong(bits, @bitCast(after), .seq_cst, .monotonic) == null;
    }

    /// Locks out all other threads. There must be no users, except possibly the caller.
    fn close(self: *Caches, before: State) bool {
        std.debug.assert(before.users <= 1);
        return self.change(before, .{ .is_closed = true });
    }

    /// Ends the state that `close` began. Returns null if memory is insufficient for a table;
    /// otherwise the caller is its only user.
    fn open(self: *Caches) ?Cache {
        if (self.table == null) self.table = self.make();
        if (self.table == null and getLimit() >= Table.bytes_min) {
            reclaim();
            self.table = self.make();
        }
        const has_table = self.table != null;
        const after: State = .{ .users = @intFromBool(has_table), .has_table = has_table };
        const table = self.table;
        self.state.store(@bitCast(after), .seq_cst);
        return .of(table orelse return null);
    }

    /// Frees the table if it has no users.
    fn freeIdle(self: *Caches) void {
        const state: State = @bitCast(self.state.load(.seq_cst));
        if (!state.has_table or state.users > 0 or !self.close(state)) return;
        const table = self.table;
        self.table = null;
        // The state is reset first, so other threads need not wait for the deallocation.
        self.state.store(@bitCast(State{}), .seq_cst);
        if (table) |some| destroy(some);
    }

    /// Returns a new table within the limit.
    fn make(self: *Caches) ?*Table {
        var before = used.load(.seq_cst);
        const bytes = while (true) {
            const bytes = room(before);
            if (bytes < Table.bytes_min) return null;
            // Two threads may compute the same free size, so it is claimed atomically.
            const after = before + bytes;
            before = used.cmpxchgWeak(before, after, .seq_cst, .seq_cst) orelse break bytes;
        };
        return Table.create(bytes, self.seed) catch {
            _ = used.fetchSub(bytes, .seq_cst);
            return null;
        };
    }
};

/// Returns the largest table size that fits next to `others` bytes of other tables.
fn room(others: usize) usize {
    const free = @min(getLimit() -| others, table_bytes_max);
    return if (free == 0) 0 else std.math.floorPowerOfTwo(usize, free);
}

/// Whether the table has lost many entries and enough memory is now free for a larger one. The
/// larger table starts empty, which is acceptable because this happens rarely.
fn couldGrow(table: *const Table) bool {
    if (!table.isTight()) return false;
    return room(used.load(.monotonic) -| table.bytes) > table.bytes;
}

/// Frees all idle tables.
fn reclaim() void {
    registry.take();
    defer registry.give();
    var caches = first;
    while (caches) |some| : (caches = some.next) some.freeIdle();
}

/// Must be called first in a forked child, by its only thread. Resets the traces of threads that
/// existed only in the parent: users, writers, the owner of the lock, and threads that were making
/// or freeing a table.
pub fn afterFork() void {
    registry = .{};
    var sum: usize = 0;
    var caches = first;
    while (caches) |some| : (caches = some.next) {
        const state: Caches.State = .{ .has_table = some.table != null };
        some.state.store(@bitCast(state), .seq_cst);
        const table = some.table orelse continue;
        table.records.forgetWriters();
        sum += table.bytes;
    }
    used.store(sum, .seq_cst);
}

fn destroy(table: *Table) void {
    const bytes = table.bytes;
    table.destroy();
    _ = used.fetchSub(bytes, .seq_cst);
}

test "caches: all threads share one table, within the limit" {
    const before = getLimit();
    defer setLimit(before);
    setLimit(3 << 20);
    var one: Caches = .{};
    one.register();
    defer one.deinit();
    var other: Caches = .{};
    other.register();
    defer other.deinit();
    var a = one.take().?;
    var b = one.take().?;
    try std.testing.expectEqual(a.table, b.table);
    try std.testing.expectEqual(2 << 20, a.table.bytes);
    one.put(&a);
    // Another tokenizer gets the remaining memory, or all of it when the first one is idle.
    var c = other.take().?;
    try std.testing.expectEqual(1 << 20, c.table.bytes);
    try std.testing.expectEqual(3 << 20, used.load(.monotonic));
    other.put(&c);
    one.put(&b);
    var d = one.take().?;
    try std.testing.expectEqual(b.table, d.table);
    // A table in use above the limit accepts no new users and is freed when the last one leaves.
    setLimit(1 << 20);
    try std.testing.expectEqual(2 << 20, used.load(.monotonic));
    try std.testing.expectEqual(null, one.take());
    one.put(&d);
    try std.testing.expectEqual(0, used.load(.monotonic));
    var e = one.take().?;
    try std.testing.expectEqual(null, other.take());
    // A table that is too small grows when it has no other users.
    e.lost = e.lines.len;
    setLimit(4 << 20);
    e.tell();
    var f = one.take().?;
    try std.testing.expectEqual(1 << 20, f.table.bytes);
    one.put(&e);
    one.put(&f);
    var g = one.take().?;
    try std.testing.expectEqual(4 << 20, g.table.bytes);
    one.put(&g);
    // An idle table is freed for another tokenizer.
    var h = other.take().?;
    try std.testing.expectEqual(4 << 20, h.table.bytes);
    try std.testing.expectEqual(null, one.table);
    other.put(&h);
    setLimit(0);
    try std.testing.expectEqual(0, used.load(.monotonic));
    try std.testing.expectEqual(null, one.take());
}

test "caches: a child process resets the users, writers and owners of its parent" {
    const before = getLimit();
    defer setLimit(before);
    setLimit(1 << 20);
    var one: Caches = .{};
    one.register();
    defer one.deinit();
    var other: Caches = .{};
    other.register();
    defer other.deinit();
    // One table is in use by a writing thread. The other is being created, by a thread that has the
    // lock.
    const cache = one.take().?;
    _ = cache.table.records.begin(10);
    other.state.store(@bitCast(Caches.State{ .is_closed = true }), .monotonic);
    registry.take();
    _ = used.fetchAdd(1 << 20, .monotonic);
    afterFork();
    try std.testing.expectEqual(1 << 20, used.load(.monotonic));
    // A lap begins only without writers.
    const records = &cache.table.records;
    for (0..3) |_| {
        _ = records.begin(records.len / 2).?;
        records.forgetWriters();
    }
    try std.testing.expect(records.isFull());
    // The other tokenizer can allocate the memory.
    var next = other.take().?;
    try std.testing.expectEqual(null, one.table);
    other.put(&next);
    setLimit(1 << 19);
    try std.testing.expectEqual(0, used.load(.monotonic));
}

test "caches: threads take and return tables while the limit changes" {
    const Context = struct {
        caches: [2]Caches = .{ .{}, .{} },
        over: std.atomic.Value(usize) = .init(0),

        fn work(self: *@This(), job: usize) void {
            var prng: std.Random.DefaultPrng = .init(std.testing.random_seed +% job);
            const random = prng.random();
            for (0..examples(3000)) |_| {
                if (job == 0 and random.uintLessThan(u8, 8) == 0) {
                    setLimit(@as(usize, 1) << random.intRangeAtMost(u6, 16, 22));
                }
                const caches = &self.caches[random.uintLessThan(usize, 2)];
                var cache = caches.take() orelse continue;
                defer caches.put(&cache);
                const key = cache.keyOf("0123456789abcdef", random.uintLessThan(usize, 16) + 1);
                cache.insert(key, "0123", &.{ 1, 2 });
                if (used.load(.monotonic) > 4 << 20) _ = self.over.fetchAdd(1, .monotonic);
            }
        }
    };
    const before = getLimit();
    defer setLimit(before);
    setLimit(1 << 22);
    var context: Context = .{};
    for (&context.caches) |*caches| caches.register();
    platform.threads.run(4, 4, &context, Context.work);
    try std.testing.expectEqual(0, context.over.raw);
    setLimit(0);
    try std.testing.expectEqual(0, used.load(.monotonic));
    for (&context.caches) |*caches| {
        try std.testing.expectEqual(0, caches.state.load(.monotonic));
        caches.deinit();
    }
}

test "caches: deinit waits for the thread that has the registry lock" {
    const Context = struct {
        caches: Caches = .{},
        is_in: std.atomic.Value(bool) = .init(false),
        is_out: std.atomic.Value(bool) = .init(false),
        was_out: bool = false,

        fn work(self: *@This(), job: usize) void {
            if (job == 0) {
                registry.take();
                self.is_in.store(true, .release);
                // As long as a thread may be preempted.
                for (0..20_000) |_| platform.threads.yield();
                for (0..4_000_000) |_| std.atomic.spinLoopHint();
                self.is_out.store(true, .release);
                registry.give();
            } else {
                while (!self.is_in.load(.acquire)) std.atomic.spinLoopHint();
                self.caches.deinit();
                self.was_out = self.is_out.load(.acquire);
            }
        }
    };
    var context: Context = .{};
    context.caches.register();
    platform.threads.run(2, 2, &context, Context.work);
    try std.testing.expect(context.was_out);
}
