//! Texts → ids of all of them, end to end, on several threads.
//!
//! The texts are cut into jobs (jobs.zig), which are picked in order and whose ids are joined in
//! order (joined.zig), so the result never depends on the threads.

const std = @import("std");
const Allocator = std.mem.Allocator;
const ids = @import("../ids.zig");
const jobs_ = @import("jobs.zig");
const joined_ = @import("joined.zig");
const pool = @import("../pool.zig");
const Goal = joined_.Goal;
const Job = jobs_.Job;
const Joined = joined_.Joined;

pub const job_bytes_max = &jobs_.job_bytes_max;
pub const reserve = joined_.reserve;

pub const Ragged = struct {
    ids: []u32,
    /// Text i is `ids[offsets[i]..offsets[i + 1]]`.
    offsets: []i64,
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

    /// Whether ids are those of the file, and not ranks.
    is_public: bool = true,

    /// Ids and offsets, owned by the caller.
    pub fn encode(self: *Batch) ids.Error!Ragged {
        const offsets = try self.gpa.alloc(i64, self.texts.len + 1);
        errdefer self.gpa.free(offsets);
        var list: ids.List = .{ .gpa = self.gpa };
        errdefer list.ids.deinit(self.gpa);
        try self.run(.encode, offsets[1..], &list);
        offsets[0] = 0;
        for (offsets[1..], offsets[0..self.texts.len]) |*end, start| end.* += start;
        return .{ .ids = try list.ids.toOwnedSlice(self.gpa), .offsets = offsets };
    }

    /// The number of ids of each text.
    pub fn count(self: *Batch) ids.Error![]i64 {
        const counts = try self.gpa.alloc(i64, self.texts.len);
        errdefer self.gpa.free(counts);
        var list: ids.List = .{ .gpa = self.gpa };
        try self.run(.count, counts, &list);
        return counts;
    }

    fn run(self: *Batch, goal: Goal, counts: []i64, list: *ids.List) ids.Error!void {
        @memset(counts, 0);
        var encoder: ids.Encoder = .init(self.gpa, self.tokenizer);
        defer encoder.deinit();
        encoder.poll = .{ .context = self, .function = askCaller };
        var jobs: jobs_.Jobs = .{ .gpa = self.gpa };
        defer jobs.deinit();
        try jobs.plan(&encoder, self.texts, self.allowed, self.threads);
        if (goal == .encode) joined_.reserve(list, jobs_.bytesOf(self.texts));
        const items = jobs.list.items;
        if (items.len == 1 and items[0].work == .texts_end) {
            // Nothing to join: the ids go where they belong.
            errdefer self.missing_byte = encoder.missing_byte;
            if (goal == .encode) {
                try self.encodeJob(&items[0], &encoder, counts, list);
                if (self.is_public) self.tokenizer.vocabulary.publish(list.ids.items);
                return;
            }
            return self.encodeJob(&items[0], &encoder, counts, &items[0].count);
        }
        var joined: Joined = .{
            .jobs = items,
            .goal = goal,
            .counts = counts,
            .list = list.*,
            .published = if (self.is_public) &self.tokenizer.vocabulary else null,
            .stopped = &self.stopped,
        };
        defer list.* = joined.list;
        var next: std.atomic.Value(usize) = .init(0);
        pool.run(self.threads, @min(self.threads, items.len), Worker{
            .batch = self,
            .joined = &joined,
            .next = &next,
            .caller = std.Thread.getCurrentId(),
            .caller_encoder = &encoder,
        }, Worker.work);
        joined.advance(&encoder, true);
        self.missing_byte = joined.missing_byte;
        if (joined.failure) |failure| return failure;
        if (joined.placed.raw < items.len) return error.Interrupted;
    }

    /// Does jobs until there are none, with one encoder: what it has learnt stays near.
    const Worker = struct {
        batch: *Batch,
        joined: *Joined,
        next: *std.atomic.Value(usize),
        caller: std.Thread.Id,
        caller_encoder: *ids.Encoder,

        fn work(self: Worker, _: usize) void {
            const batch = self.batch;
            if (std.Thread.getCurrentId() == self.caller) {
                return self.drain(self.caller_encoder, true);
            }
            if (self.next.load(.monotonic) >= self.joined.jobs.len) return;
            var encoder: ids.Encoder = .init(batch.gpa, batch.tokenizer);
            defer encoder.deinit();
            encoder.poll = .{ .context = batch, .function = isStopped };
            self.drain(&encoder, false);
        }

        fn drain(self: Worker, encoder: *ids.Encoder, is_caller: bool) void {
            while (!isStopped(self.batch)) {
                const index = self.next.fetchAdd(1, .monotonic);
                if (index >= self.joined.jobs.len) return;
                const job = &self.joined.jobs[index];
                self.runJob(job, encoder) catch |failure| {
                    job.failure = failure;
                    job.missing_byte = encoder.missing_byte;
                };
                job.is_done.store(true, .release);
                self.joined.advance(encoder, is_caller);
            }
        }

        fn runJob(self: Worker, job: *Job, encoder: *ids.Encoder) ids.Error!void {
            const batch, const joined = .{ self.batch, self.joined };
            if (joined.goal == .count) {
                return batch.encodeJob(job, encoder, joined.counts, &job.count);
            }
            joined.prepare(job, job.textBytes(batch.texts));
            try batch.encodeJob(job, encoder, joined.counts, &job.list);
        }
    };

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

    fn encodeJob(
        self: *Batch,
        job: *Job,
        encoder: *ids.Encoder,
        counts: []i64,
        sink: anytype,
    ) ids.Error!void {
        switch (job.work) {
            .texts_end => |end| for (job.text..end) |index| {
                const before = sink.total();
                try encoder.encode(self.texts[index], self.allowed, sink);
                counts[index] = @intCast(sink.total() - before);
            },
            .piece => |piece| {
                const front = &self.tokenizer.front;
                try front.encode(encoder, piece.bytes, piece.offset, self.allowed, sink);
            },
            .part => |*part| try part.encode(encoder, sink),
        }
    }
};
