//! Jobs → done: the only file that starts threads.
//!
//! Threads live as long as one call. Starting one takes tens of microseconds, which a job of 64 KB
//! hides; in return there is nothing to shut down, and a fork never meets a thread of ours.

const std = @import("std");

/// Calls `work(context, job)` once for each job below `jobs`, on up to `threads` threads of which
/// the caller's is one. Returns when all are done.
pub fn run(
    threads: usize,
    jobs: usize,
    context: anytype,
    comptime work: fn (@TypeOf(context), usize) void,
) void {
    const Shared = struct {
        next: std.atomic.Value(usize) = .init(0),
        jobs: usize,
        context: @TypeOf(context),

        fn drain(self: *@This()) void {
            while (true) {
                const job = self.next.fetchAdd(1, .monotonic);
                if (job >= self.jobs) return;
                work(self.context, job);
            }
        }
    };
    var shared: Shared = .{ .jobs = jobs, .context = context };
    var helpers: [threads_max - 1]std.Thread = undefined;
    const wanted = @min(threads, jobs, threads_max) -| 1;
    var started: usize = 0;
    while (started < wanted) : (started += 1) {
        // A machine that gives no more threads gets the same result from fewer.
        helpers[started] = std.Thread.spawn(.{}, Shared.drain, .{&shared}) catch break;
    }
    shared.drain();
    for (helpers[0..started]) |helper| helper.join();
}

pub const threads_max = 256;

test "pool: every job runs once, whatever the number of threads" {
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
