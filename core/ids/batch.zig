//! Texts → ids of all of them, end to end, on several threads.
//!
//! Neighbouring texts form jobs of about equal bytes; each job writes its own list, and the lists
//! are joined in the order of the texts, so the result never depends on the threads.

const std = @import("std");
const Allocator = std.mem.Allocator;
const ids = @import("../ids.zig");
const pool = @import("../pool.zig");

/// A job is at least this many bytes: starting a thread costs as much as encoding a few hundred.
const job_bytes_min = 64 * 1024;
/// More jobs than threads, so that one slow job does not keep the others waiting at the end.
const jobs_per_thread = 8;

pub const Ragged = struct {
    ids: []u32,
    /// Text i is `ids[offsets[i]..offsets[i + 1]]`.
    offsets: []i64,
};

const Job = struct {
    texts_start: usize,
    texts_end: usize,
    list: std.ArrayList(u32) = .empty,
    failure: ?ids.Error = null,
    missing_byte: u8 = 0,
};

pub const Batch = struct {
    gpa: Allocator,
    tokenizer: *const ids.Tokenizer,
    texts: []const []const u8,
    allowed: ?[]const u8,
    threads: usize,
    /// Asked on the caller's thread; the others look at `stopped`.
    poll: ?ids.Poll = null,
    stopped: std.atomic.Value(bool) = .init(false),
    /// Set with error.MissingByte.
    missing_byte: u8 = 0,

    /// Ids and offsets, owned by the caller.
    pub fn encode(self: *Batch) ids.Error!Ragged {
        const offsets = try self.gpa.alloc(i64, self.texts.len + 1);
        errdefer self.gpa.free(offsets);
        const jobs = try self.run(offsets[1..], .encode);
        defer self.free(jobs);
        offsets[0] = 0;
        for (offsets[1..], offsets[0..self.texts.len]) |*end, start| end.* += start;
        return .{ .ids = try self.join(jobs), .offsets = offsets };
    }

    /// The number of ids of each text.
    pub fn count(self: *Batch) ids.Error![]i64 {
        const counts = try self.gpa.alloc(i64, self.texts.len);
        errdefer self.gpa.free(counts);
        self.free(try self.run(counts, .count));
        return counts;
    }

    const Goal = enum { encode, count };
    const Context = struct {
        batch: *Batch,
        jobs: []Job,
        counts: []i64,
        goal: Goal,
        caller: std.Thread.Id,
    };

    fn run(self: *Batch, counts: []i64, goal: Goal) ids.Error![]Job {
        const jobs = try self.plan();
        errdefer self.free(jobs);
        const context: Context = .{
            .batch = self,
            .jobs = jobs,
            .counts = counts,
            .goal = goal,
            .caller = std.Thread.getCurrentId(),
        };
        pool.run(self.threads, jobs.len, context, runJob);
        for (jobs) |job| {
            self.missing_byte = job.missing_byte;
            if (job.failure) |failure| return failure;
        }
        return jobs;
    }

    fn plan(self: *Batch) Allocator.Error![]Job {
        var total: usize = 0;
        for (self.texts) |text| total += text.len;
        const share = if (self.threads == 1) total else total / (self.threads * jobs_per_thread);
        const job_bytes = @max(job_bytes_min, share);
        var jobs: std.ArrayList(Job) = .empty;
        errdefer jobs.deinit(self.gpa);
        var start: usize = 0;
        var bytes: usize = 0;
        for (self.texts, 1..) |text, end| {
            bytes += text.len;
            if (bytes < job_bytes and end < self.texts.len) continue;
            try jobs.append(self.gpa, .{ .texts_start = start, .texts_end = end });
            start = end;
            bytes = 0;
        }
        return jobs.toOwnedSlice(self.gpa);
    }

    fn runJob(context: Context, index: usize) void {
        const job = &context.jobs[index];
        const batch = context.batch;
        if (isStopped(batch)) {
            job.failure = error.Interrupted;
            return;
        }
        var encoder: ids.Encoder = .forThreads(batch.gpa, batch.tokenizer, batch.threads);
        defer encoder.deinit();
        const is_caller = std.Thread.getCurrentId() == context.caller;
        encoder.poll = .{ .context = batch, .function = if (is_caller) askCaller else isStopped };
        encodeTexts(context, job, &encoder) catch |failure| {
            job.failure = failure;
            job.missing_byte = encoder.missing_byte;
        };
    }

    fn askCaller(context: *anyopaque) bool {
        const self: *Batch = @ptrCast(@alignCast(context));
        const poll = self.poll orelse return false;
        if (poll.function(poll.context)) self.stopped.store(true, .monotonic);
        return isStopped(context);
    }

    fn isStopped(context: *anyopaque) bool {
        const self: *Batch = @ptrCast(@alignCast(context));
        return self.stopped.load(.monotonic);
    }

    fn encodeTexts(context: Context, job: *Job, encoder: *ids.Encoder) ids.Error!void {
        const batch = context.batch;
        for (job.texts_start..job.texts_end) |index| switch (context.goal) {
            .count => {
                var sink: ids.Count = .{};
                try encoder.encode(batch.texts[index], batch.allowed, &sink);
                context.counts[index] = @intCast(sink.count);
            },
            .encode => {
                var sink: ids.List = .{ .gpa = batch.gpa, .ids = job.list };
                // The list moves when it grows, so the job takes it back even after a failure.
                defer job.list = sink.ids;
                const before = sink.ids.items.len;
                try encoder.encode(batch.texts[index], batch.allowed, &sink);
                context.counts[index] = @intCast(sink.ids.items.len - before);
            },
        };
    }

    fn join(self: *Batch, jobs: []Job) Allocator.Error![]u32 {
        if (jobs.len == 1) return jobs[0].list.toOwnedSlice(self.gpa);
        var total: usize = 0;
        for (jobs) |job| total += job.list.items.len;
        const joined = try self.gpa.alloc(u32, total);
        var start: usize = 0;
        for (jobs) |*job| {
            @memcpy(joined[start..][0..job.list.items.len], job.list.items);
            start += job.list.items.len;
            job.list.clearAndFree(self.gpa);
        }
        return joined;
    }

    fn free(self: *Batch, jobs: []Job) void {
        for (jobs) |*job| job.list.deinit(self.gpa);
        self.gpa.free(jobs);
    }
};
