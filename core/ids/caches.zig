//! Caches of all tokenizers of the process, within one bound.
//!
//! A thread that encodes takes a cache and puts it back, so each is used by one thread at a time
//! and keeps what it learnt. A tokenizer keeps its idle caches; when another one needs the memory,
//! it gets it from them. Without memory there is no cache, and the ids are the same.

const std = @import("std");
const builtin = @import("builtin");
const Cache = @import("cache.zig").Cache;
const pool = @import("../pool.zig");

/// A cache is at most this large: more would not be near any processor.
const cache_bytes_max = 1 << 30;
const idle_max = 256;

var limit: std.atomic.Value(usize) = .init(64 << 20);
/// Bytes of all caches that exist.
var used: std.atomic.Value(usize) = .init(0);
/// The tokenizers, linked to each other.
var first: ?*Caches = null;
var registry: Lock = .{};

/// Bounds the caches of the process. Those in use shrink no more, those that are idle are freed.
pub fn setLimit(bytes: usize) void {
    limit.store(bytes, .monotonic);
    reclaim();
}

pub fn getLimit() usize {
    return limit.load(.monotonic);
}

/// A lock that a fork cannot block for ever: in the child its owner does not exist, and it is
/// taken from there. Who has it does little, but may lose its processor meanwhile.
const Lock = struct {
    /// The process that has it; 0: nobody.
    owner: std.atomic.Value(u32) = .init(0),

    fn take(self: *Lock) void {
        const own = process();
        while (true) {
            for (0..1 << 10) |_| {
                const there = self.owner.load(.monotonic);
                if (there != own and
                    self.owner.cmpxchgStrong(there, own, .acquire, .monotonic) == null) return;
                std.atomic.spinLoopHint();
            }
            std.Thread.yield() catch {};
        }
    }
    fn give(self: *Lock) void {
        self.owner.store(0, .release);
    }

    /// A number that a child does not share.
    fn process() u32 {
        return switch (builtin.os.tag) {
            .linux => @intCast(std.os.linux.getpid()),
            // No forks there.
            .windows => 1,
            else => @intCast(std.c.getpid()),
        };
    }
};

/// The idle caches of one tokenizer. It stays where it is while it is registered.
pub const Caches = struct {
    seed: u64 = 0,
    idle: [idle_max]std.atomic.Value(?*Cache) = @splat(.init(null)),
    next: ?*Caches = null,
    registered: bool = false,

    pub fn register(self: *Caches) void {
        registry.take();
        defer registry.give();
        self.next = first;
        first = self;
        self.registered = true;
    }

    pub fn deinit(self: *Caches) void {
        registry.take();
        defer registry.give();
        var place = &first;
        while (place.*) |other| : (place = &other.next) {
            if (other != self) continue;
            place.* = self.next;
            break;
        }
        self.freeIdle();
    }

    /// A cache for one of `threads` threads, or null when there is no memory for it.
    pub fn take(self: *Caches, threads: usize) ?*Cache {
        const share = getLimit() / @max(threads, 1);
        for (&self.idle) |*place| {
            if (place.load(.monotonic) == null) continue;
            const cache = place.swap(null, .acquire) orelse continue;
            if (cache.bytes > share) return self.divide(cache, share, threads) orelse continue;
            if (cache.bytes > share / 2 or !cache.isTight()) return cache;
            // From a time with more threads, and too small.
            self.freeIdle();
            return self.moved(cache, share) orelse cache;
        }
        return self.make(share) orelse {
            reclaim();
            return self.make(share);
        };
    }

    /// Makes a cache from a time with fewer threads into small ones, since it would leave nothing
    /// for the others; each begins with what it knew. Returns one, the others are idle.
    fn divide(self: *Caches, cache: *Cache, share: usize, threads: usize) ?*Cache {
        self.freeIdle();
        const small = self.moved(cache, share) orelse {
            destroy(cache);
            return null;
        };
        for (1..threads) |_| {
            const other = self.make(share) orelse break;
            if (other.bytes == small.bytes) other.copyFrom(small);
            self.put(other);
        }
        return small;
    }

    /// A cache of at most `share` bytes with what fits of another one, which it replaces; null if
    /// there is no memory for it.
    fn moved(self: *Caches, cache: *Cache, share: usize) ?*Cache {
        const before = cache.bytes;
        // It counts as one already: while they are two, they take no more than the larger one.
        _ = used.fetchSub(before, .monotonic);
        const other = self.make(share) orelse {
            _ = used.fetchAdd(before, .monotonic);
            return null;
        };
        cache.moveTo(other);
        cache.destroy();
        return other;
    }

    pub fn put(self: *Caches, cache: *Cache) void {
        if (used.load(.monotonic) <= getLimit()) for (&self.idle) |*place| {
            if (place.load(.monotonic) != null) continue;
            if (place.cmpxchgStrong(null, cache, .release, .monotonic) == null) return;
        };
        destroy(cache);
    }

    /// A new cache of at most `share` bytes within the limit.
    fn make(self: *Caches, share: usize) ?*Cache {
        const free = getLimit() -| used.load(.monotonic);
        const room = @min(share, free, cache_bytes_max);
        if (room < Cache.bytes_min) return null;
        const bytes = std.math.floorPowerOfTwo(usize, room);
        // Two threads may see the same room: the second one gives it back.
        if (used.fetchAdd(bytes, .monotonic) + bytes > getLimit()) {
            _ = used.fetchSub(bytes, .monotonic);
            return null;
        }
        return Cache.create(bytes, self.seed) catch {
            _ = used.fetchSub(bytes, .monotonic);
            return null;
        };
    }

    fn freeIdle(self: *Caches) void {
        for (&self.idle) |*place| if (place.swap(null, .acquire)) |cache| destroy(cache);
    }
};

/// Frees the idle caches of all tokenizers.
fn reclaim() void {
    registry.take();
    defer registry.give();
    var caches = first;
    while (caches) |some| : (caches = some.next) some.freeIdle();
}

fn destroy(cache: *Cache) void {
    _ = used.fetchSub(cache.bytes, .monotonic);
    cache.destroy();
}

test "caches: the bound holds, and idle caches are used again" {
    const before = getLimit();
    defer setLimit(before);
    setLimit(3 << 20);
    const threads = 3;
    var one: Caches = .{};
    one.register();
    defer one.deinit();
    var other: Caches = .{};
    other.register();
    defer other.deinit();
    const a = one.take(threads).?;
    try std.testing.expectEqual(1 << 20, a.bytes);
    const b = one.take(threads).?;
    const c = one.take(threads).?;
    try std.testing.expectEqual(null, one.take(threads));
    one.put(b);
    try std.testing.expectEqual(b, one.take(threads).?);
    one.put(b);
    // Another tokenizer gets what this one does not use.
    const d = other.take(threads).?;
    try std.testing.expectEqual(3 << 20, used.load(.monotonic));
    other.put(d);
    one.put(a);
    one.put(c);
    // One thread alone gets what is there, and gives it back when there are more.
    const alone = one.take(1).?;
    one.put(alone);
    setLimit(3 << 20);
    const large = one.take(1).?;
    try std.testing.expectEqual(2 << 20, large.bytes);
    one.put(large);
    const small = one.take(threads).?;
    try std.testing.expectEqual(1 << 20, small.bytes);
    one.put(small);
    // What is too small grows when one thread comes again.
    const kept = one.take(1).?;
    try std.testing.expectEqual(1 << 20, kept.bytes);
    kept.lost = kept.lines.len;
    one.put(kept);
    const grown = one.take(1).?;
    try std.testing.expectEqual(2 << 20, grown.bytes);
    try std.testing.expect(used.load(.monotonic) <= getLimit());
    one.put(grown);
    setLimit(0);
    try std.testing.expectEqual(0, used.load(.monotonic));
    try std.testing.expectEqual(null, one.take(threads));
}

test "caches: who leaves waits for who is in the registry" {
    const Context = struct {
        caches: Caches = .{},
        is_in: std.atomic.Value(bool) = .init(false),
        is_out: std.atomic.Value(bool) = .init(false),
        was_out: bool = false,

        fn work(self: *@This(), job: usize) void {
            if (job == 0) {
                registry.take();
                self.is_in.store(true, .release);
                // As long as a thread may be without a processor.
                for (0..20_000) |_| std.Thread.yield() catch {};
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
    pool.run(2, 2, &context, Context.work);
    try std.testing.expect(context.was_out);
}
