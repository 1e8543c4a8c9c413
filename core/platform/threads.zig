//! Jobs → completed jobs, on threads.
//!
//! Threads live for one call. Starting one takes tens of microseconds, which is small compared to a
//! job of 64 KB. In return no thread has to be shut down, and a fork between calls loses none.

const std = @import("std");
const builtin = @import("builtin");

/// Calls `work(context, worker)` on up to `threads` threads at the same time. Worker 0 is the
/// caller's thread. Returns when all are done.
pub fn workers(
    threads: usize,
    context: anytype,
    comptime work: fn (@TypeOf(context), usize) void,
) void {
    if (builtin.single_threaded) return work(context, 0);
    var helpers: [threads_max - 1]std.Thread = undefined;
    const wanted = @min(threads, threads_max) -| 1;
    var started: usize = 0;
    while (started < wanted) : (started += 1) {
        // If no more threads can be started, fewer threads compute the same result.
        helpers[started] = std.Thread.spawn(.{}, work, .{ context, started + 1 }) catch break;
    }
    work(context, 0);
    for (helpers[0..started]) |helper| helper.join();
}

/// The numbers of jobs, which workers take in order.
pub const Queue = struct {
    len: usize,
    next: std.atomic.Value(usize) = .init(0),

    /// Returns a job that no other worker takes, null if none is left.
    pub fn take(self: *Queue) ?usize {
        const job = self.next.fetchAdd(1, .monotonic);
        return if (job < self.len) job else null;
    }

    pub fn isEmpty(self: *const Queue) bool {
        return self.next.load(.monotonic) >= self.len;
    }
};

/// Stops the workers of a call when the caller's poll requires it, or when a job fails.
pub const Stop = struct {
    /// Called by worker 0 only.
    poll: ?Poll = null,
    stopped: std.atomic.Value(bool) = .init(false),

    /// Returns the poll of a worker.
    pub fn pollOf(self: *Stop, worker: usize) Poll {
        return .{ .context = self, .function = if (worker == 0) askCaller else isStopped };
    }

    pub fn stop(self: *Stop) void {
        self.stopped.store(true, .monotonic);
    }

    pub fn isSet(self: *const Stop) bool {
        return self.stopped.load(.monotonic);
    }

    fn askCaller(context: *anyopaque) bool {
        const self: *Stop = @ptrCast(@alignCast(context));
        if (self.poll) |poll| if (poll.function(poll.context)) self.stop();
        return self.isSet();
    }

    fn isStopped(context: *anyopaque) bool {
        const self: *Stop = @ptrCast(@alignCast(context));
        return self.isSet();
    }
};

/// Calls `work(context, job)` once for each job below `jobs`, on up to `threads` threads including
/// the caller's. Returns when all are done.
pub fn run(
    threads: usize,
    jobs: usize,
    context: anytype,
    comptime work: fn (@TypeOf(context), usize) void,
) void {
    const Work = struct {
        queue: Queue,
        context: @TypeOf(context),

        fn drain(self: *@This(), _: usize) void {
            while (self.queue.take()) |job| work(self.context, job);
        }
    };
    var all: Work = .{ .queue = .{ .len = jobs }, .context = context };
    workers(@min(threads, jobs), &all, Work.drain);
}

pub const threads_max = 256;

/// Calls `work(context, member, barrier)` on each member of a team, all at the same time, so that
/// they can synchronize. The team has up to `threads` members; the caller's thread is number 0.
pub fn team(
    threads: usize,
    context: anytype,
    comptime work: fn (@TypeOf(context), usize, *Barrier) void,
) void {
    const Members = struct {
        context: @TypeOf(context),
        barrier: Barrier = .{ .size = .init(0) },

        /// No member starts before the size of the team is known.
        fn join(self: *@This(), member: usize) void {
            const size = &self.barrier.size;
            while (size.load(.acquire) == 0) sleep(size, 0);
            work(self.context, member, &self.barrier);
        }
    };
    var members: Members = .{ .context = context };
    if (builtin.single_threaded) {
        members.barrier.size.store(1, .monotonic);
        return work(context, 0, &members.barrier);
    }
    var helpers: [threads_max - 1]std.Thread = undefined;
    const wanted = @min(threads, threads_max) -| 1;
    var started: usize = 0;
    while (started < wanted) : (started += 1) {
        const member = started + 1;
        helpers[started] = std.Thread.spawn(.{}, Members.join, .{ &members, member }) catch break;
    }
    members.barrier.size.store(@intCast(started + 1), .release);
    wake(&members.barrier.size);
    work(context, 0, &members.barrier);
    for (helpers[0..started]) |helper| helper.join();
}

/// Synchronizes the members of a team.
pub const Barrier = struct {
    /// Number of members.
    size: std.atomic.Value(u32),
    arrived: std.atomic.Value(u32) = .init(0),
    generation: std.atomic.Value(u32) = .init(0),

    /// Longer than most waits, but shorter than sleeping and waking. Spinning longer could keep the
    /// awaited thread from getting a core.
    const spins = 2000;

    /// Waits for all members. The last one to arrive calls `last(context)` before the others
    /// continue.
    pub fn wait(self: *Barrier, context: anytype, comptime last: fn (@TypeOf(context)) void) void {
        const generation = self.generation.load(.acquire);
        if (self.arrived.fetchAdd(1, .acq_rel) + 1 == self.size.load(.monotonic)) {
            last(context);
            self.arrived.store(0, .monotonic);
            _ = self.generation.fetchAdd(1, .release);
            return wake(&self.generation);
        }
        for (0..spins) |_| {
            if (self.generation.load(.acquire) != generation) return;
            std.atomic.spinLoopHint();
        }
        while (self.generation.load(.acquire) == generation) sleep(&self.generation, generation);
    }
};

/// Sleeps until another thread calls `wake`, unless the value has already changed. May wake
/// spuriously.
fn sleep(place: *std.atomic.Value(u32), value: u32) void {
    if (builtin.single_threaded) return;
    if (builtin.os.tag == .linux) {
        _ = std.os.linux.futex_4arg(&place.raw, .{ .cmd = .WAIT, .private = true }, value, null);
    } else std.Thread.yield() catch {};
}

fn wake(place: *std.atomic.Value(u32)) void {
    if (builtin.os.tag != .linux) return;
    const all = std.math.maxInt(i32);
    _ = std.os.linux.futex_3arg(&place.raw, .{ .cmd = .WAKE, .private = true }, all);
}

/// Called periodically during long work. True means stop.
pub const Poll = struct {
    context: *anyopaque,
    function: *const fn (*anyopaque) bool,

    /// Bytes of text between two calls: about ten milliseconds of encoding.
    pub const bytes_between = 1 << 20;
};

pub const Id = if (builtin.single_threaded) u32 else std.Thread.Id;

/// Returns the id of the calling thread.
pub fn currentId() Id {
    return if (builtin.single_threaded) 0 else std.Thread.getCurrentId();
}

/// A number that threads share. Without threads it is a plain number, because some systems have no
/// atomic operations on 64 bits.
pub fn Shared(comptime T: type) type {
    return if (builtin.single_threaded) Unshared(T) else std.atomic.Value(T);
}

/// The functions of `std.atomic.Value` that the core calls, without atomic operations.
fn Unshared(comptime T: type) type {
    return extern struct {
        raw: T,

        const Self = @This();
        const Order = std.builtin.AtomicOrder;

        pub fn init(value: T) Self {
            return .{ .raw = value };
        }
        pub inline fn load(self: *const Self, comptime _: Order) T {
            return self.raw;
        }
        pub inline fn store(self: *Self, value: T, comptime _: Order) void {
            self.raw = value;
        }
        pub inline fn fetchAdd(self: *Self, value: T, comptime _: Order) T {
            defer self.raw +%= value;
            return self.raw;
        }
        pub inline fn fetchSub(self: *Self, value: T, comptime _: Order) T {
            defer self.raw -%= value;
            return self.raw;
        }
        pub inline fn cmpxchgStrong(
            self: *Self,
            expected: T,
            new: T,
            comptime _: Order,
            comptime _: Order,
        ) ?T {
            if (self.raw != expected) return self.raw;
            self.raw = new;
            return null;
        }
        pub const cmpxchgWeak = cmpxchgStrong;
    };
}

/// Returns a number that threads share. The compiler keeps the order of these loads.
pub inline fn loadInOrder(place: *const u64) u64 {
    if (builtin.single_threaded) return place.*;
    return @atomicLoad(u64, @as(*const volatile u64, place), .acquire);
}

/// Adds to a number that threads share.
pub inline fn addTo(place: *u64, value: u64) void {
    if (builtin.single_threaded) {
        place.* +%= value;
    } else _ = @atomicRmw(u64, place, .Add, value, .monotonic);
}

/// Lets another thread use the core.
pub fn yield() void {
    if (builtin.single_threaded) return;
    std.Thread.yield() catch {};
}

/// A pause in a spin loop, and every 1,024th time a yield.
pub const Backoff = struct {
    times: u32 = 0,

    pub fn pause(self: *Backoff) void {
        self.times +%= 1;
        if (self.times % (1 << 10) == 0) yield() else std.atomic.spinLoopHint();
    }
};

/// Orders earlier loads before later ones. On x86-64 the CPU keeps the order of loads, and the
/// compiler keeps the order of volatile ones.
pub inline fn fenceLoads() void {
    if (builtin.single_threaded) return;
    switch (builtin.cpu.arch) {
        .x86_64 => {},
        .aarch64 => asm volatile ("dmb ishld" ::: .{ .memory = true }),
        else => @compileError("fenceLoads: expected x86_64 or aarch64"),
    }
}

/// Orders earlier stores before later ones.
pub inline fn fenceStores() void {
    if (builtin.single_threaded) return;
    switch (builtin.cpu.arch) {
        .x86_64 => {},
        .aarch64 => asm volatile ("dmb ishst" ::: .{ .memory = true }),
        else => @compileError("fenceStores: expected x86_64 or aarch64"),
    }
}

test "threads: a team synchronizes, and the last member works alone" {
    const Context = struct {
        sums: [8]u64 = @splat(0),
        total: u64 = 0,
        rounds: u64 = 0,

        fn add(self: *@This()) void {
            for (self.sums) |sum| self.total += sum;
            self.rounds += 1;
        }
        fn work(self: *@This(), member: usize, barrier: *Barrier) void {
            for (0..1000) |_| {
                self.sums[member] += 1;
                barrier.wait(self, add);
            }
        }
    };
    for ([_]usize{ 1, 2, 5, 8 }) |threads| {
        var context: Context = .{};
        team(threads, &context, Context.work);
        try std.testing.expectEqual(1000, context.rounds);
        try std.testing.expectEqual(threads * 500 * 1001, context.total);
    }
}

test "threads: every job runs once, with any number of threads" {
    const Context = struct { counts: []std.atomic.Value(u32) };
    const work = struct {
        fn work(context: Context, job: usize) void {
            _ = context.counts[job].fetchAdd(1, .monotonic);
        }
    }.work;
    for ([_]usize{ 0, 1, 2, 7, 300 }) |threads| {
        var counts: [100]std.atomic.Value(u32) = @splat(.init(0));
        run(threads, counts.len, Context{ .counts = &counts }, work);
        for (&counts) |*count| try std.testing.expectEqual(1, count.load(.monotonic));
    }
}
