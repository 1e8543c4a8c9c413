//! Texts → ids of all of them, end to end, on several threads.
//!
//! Neighbouring texts form jobs of about equal bytes; a long text is several jobs, cut at specials
//! where it has them and else into parts (parts.zig). Each job writes its own list, and the lists
//! are joined in the order of the texts, so the result never depends on the threads.

const std = @import("std");
const Allocator = std.mem.Allocator;
const ids = @import("../ids.zig");
const parts = @import("parts.zig");
const pages = @import("../pages.zig");
const pool = @import("../pool.zig");

/// A job is at least this many bytes: starting a thread costs as much as encoding a few hundred.
const job_bytes_min = 64 * 1024;
/// More jobs than threads, so that one slow job does not keep the others waiting at the end.
const jobs_per_thread = 8;
/// Where parts meet, a few pretokens are encoded twice.
const part_bytes_min = 256 * 1024;

pub const Ragged = struct {
    ids: []u32,
    /// Text i is `ids[offsets[i]..offsets[i + 1]]`.
    offsets: []i64,
};

const Work = union(enum) {
    /// All texts up to this one.
    texts_end: usize,
    /// A piece of a text, from one special to another.
    piece: []const u8,
    part: parts.Part,
};

const Job = struct {
    /// The first text, or the only one.
    text: usize,
    work: Work,
    list: ids.List,
    count: ids.Count = .{},
    /// Of a part: ids that go before the list, and how many of the list do not count.
    bridge: ids.List,
    skipped: usize = 0,
    /// Where its ids go.
    joined_start: usize = 0,
    failure: ?ids.Error = null,
    missing_byte: u8 = 0,

    /// Room for about what most texts need; what is not touched costs nothing.
    fn reserve(self: *Job, texts: []const []const u8) void {
        var bytes: usize = 0;
        switch (self.work) {
            .texts_end => |end| for (texts[self.text..end]) |text| {
                bytes += text.len;
            },
            .piece => |piece| bytes = piece.len,
            .part => |part| bytes = part.limit - part.from,
        }
        self.list.ids.ensureTotalCapacity(self.list.gpa, bytes / 3 + 16) catch {};
        pages.adviseHuge(self.list.ids.allocatedSlice());
    }
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
        var jobs = try self.run(offsets[1..], .encode);
        defer self.free(&jobs);
        offsets[0] = 0;
        for (offsets[1..], offsets[0..self.texts.len]) |*end, start| end.* += start;
        return .{ .ids = try self.join(jobs.items), .offsets = offsets };
    }

    /// The number of ids of each text.
    pub fn count(self: *Batch) ids.Error![]i64 {
        const counts = try self.gpa.alloc(i64, self.texts.len);
        errdefer self.gpa.free(counts);
        var jobs = try self.run(counts, .count);
        self.free(&jobs);
        return counts;
    }

    const Jobs = std.ArrayList(Job);
    const Goal = enum { encode, count };
    const Context = struct {
        batch: *Batch,
        jobs: []Job,
        counts: []i64,
        goal: Goal,
        caller: std.Thread.Id,
    };

    fn run(self: *Batch, counts: []i64, goal: Goal) ids.Error!Jobs {
        var jobs = try self.plan();
        errdefer self.free(&jobs);
        // Lists that are joined go back to the system one by one, or the ids would be there twice.
        if (jobs.items.len > 1) for (jobs.items) |*job| {
            job.list.gpa = std.heap.page_allocator;
        };
        @memset(counts, 0);
        const context: Context = .{
            .batch = self,
            .jobs = jobs.items,
            .counts = counts,
            .goal = goal,
            .caller = std.Thread.getCurrentId(),
        };
        pool.run(self.threads, jobs.items.len, context, runJob);
        for (jobs.items) |job| {
            self.missing_byte = job.missing_byte;
            if (job.failure) |failure| return failure;
        }
        try self.joinParts(context);
        return jobs;
    }

    // Planning

    fn plan(self: *Batch) ids.Error!Jobs {
        var total: usize = 0;
        for (self.texts) |text| total += text.len;
        const share = if (self.threads == 1) total else total / (self.threads * jobs_per_thread);
        const job_bytes = @max(job_bytes_min, share);
        const long_bytes = 2 * @max(part_bytes_min, share);
        var jobs: Jobs = .empty;
        errdefer self.free(&jobs);
        var start: usize = 0;
        var bytes: usize = 0;
        for (self.texts, 0..) |text, index| {
            const is_long = self.threads > 1 and text.len >= long_bytes;
            if (is_long) {
                if (start < index) try self.add(&jobs, start, .{ .texts_end = index });
                try self.planLong(&jobs, index, long_bytes);
            } else {
                bytes += text.len;
                if (bytes < job_bytes and index + 1 < self.texts.len) continue;
                try self.add(&jobs, start, .{ .texts_end = index + 1 });
            }
            start = index + 1;
            bytes = 0;
        }
        return jobs;
    }

    fn add(self: *Batch, jobs: *Jobs, text: usize, work: Work) Allocator.Error!void {
        const empty: ids.List = .{ .gpa = self.gpa };
        try jobs.append(self.gpa, .{ .text = text, .work = work, .list = empty, .bridge = empty });
    }

    /// The jobs of one long text: documents between specials, of which the long ones are cut.
    fn planLong(self: *Batch, jobs: *Jobs, index: usize, long_bytes: usize) ids.Error!void {
        var encoder: ids.Encoder = .init(self.gpa, self.tokenizer);
        defer encoder.deinit();
        const text = self.texts[index];
        var planned: usize = 0;
        var start: usize = 0;
        while (true) {
            const found = if (self.allowed) |allowed|
                self.tokenizer.specials.find(text, start, allowed)
            else
                null;
            const end = if (found) |special| special.start else text.len;
            if (end - start >= long_bytes) {
                if (planned < start) try self.add(jobs, index, .{ .piece = text[planned..start] });
                try self.planParts(jobs, index, &encoder, text[start..end], long_bytes / 2);
                planned = end;
            } else if (end - planned >= long_bytes / 2 or found == null) {
                try self.add(jobs, index, .{ .piece = text[planned..end] });
                planned = end;
            }
            start = if (found) |special| special.end else return;
        }
    }

    fn planParts(
        self: *Batch,
        jobs: *Jobs,
        index: usize,
        encoder: *ids.Encoder,
        document: []const u8,
        part_bytes: usize,
    ) ids.Error!void {
        var from: usize = 0;
        while (from < document.len) {
            const rest = document.len - from;
            const limit = if (rest < part_bytes + part_bytes / 2)
                document.len
            else
                try parts.startNear(encoder, document, from + part_bytes);
            try self.add(jobs, index, .{
                .part = .{ .document = document, .from = from, .limit = limit },
            });
            from = limit;
        }
    }

    // Running

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
        if (context.goal == .encode) job.reserve(batch.texts);
        const outcome = switch (context.goal) {
            .encode => encodeJob(context, job, &encoder, &job.list),
            .count => encodeJob(context, job, &encoder, &job.count),
        };
        outcome catch |failure| {
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

    fn encodeJob(
        context: Context,
        job: *Job,
        encoder: *ids.Encoder,
        sink: anytype,
    ) ids.Error!void {
        const batch = context.batch;
        switch (job.work) {
            .texts_end => |end| for (job.text..end) |index| {
                const before = sink.total();
                try encoder.encode(batch.texts[index], batch.allowed, sink);
                context.counts[index] = @intCast(sink.total() - before);
            },
            .piece => |piece| try encoder.encode(piece, batch.allowed, sink),
            .part => |*part| try part.encode(encoder, sink),
        }
    }

    // Joining

    /// Makes the parts of a document meet, and adds up what long texts have.
    fn joinParts(self: *Batch, context: Context) ids.Error!void {
        var encoder: ids.Encoder = .init(self.gpa, self.tokenizer);
        defer encoder.deinit();
        encoder.poll = .{ .context = self, .function = askCaller };
        var end: usize = 0;
        for (context.jobs) |*job| {
            const total = if (context.goal == .encode) job.list.total() else job.count.total();
            var bridged: usize = 0;
            switch (job.work) {
                .texts_end => continue,
                .piece => {},
                .part => |*part| if (part.from == 0) {
                    end = part.end;
                } else {
                    var counted: ids.Count = .{};
                    const joint = if (context.goal == .encode)
                        try parts.join(&encoder, part, end, total, &job.bridge)
                    else
                        try parts.join(&encoder, part, end, total, &counted);
                    end = joint.end;
                    job.skipped = joint.skipped;
                    bridged = job.bridge.total() + counted.count;
                },
            }
            context.counts[job.text] += @intCast(bridged + total - job.skipped);
        }
    }

    fn join(self: *Batch, jobs: []Job) Allocator.Error![]u32 {
        if (jobs.len == 1) return jobs[0].list.ids.toOwnedSlice(self.gpa);
        var total: usize = 0;
        for (jobs) |*job| {
            job.joined_start = total;
            total += job.bridge.total() + job.list.total() - job.skipped;
        }
        const joined = try self.gpa.alloc(u32, total);
        pages.adviseHuge(joined);
        // On all threads: touching new memory takes as long as encoding does.
        const context: Joining = .{ .jobs = jobs, .joined = joined };
        pool.run(self.threads, jobs.len, context, Joining.copy);
        return joined;
    }

    const Joining = struct {
        jobs: []Job,
        joined: []u32,

        fn copy(self: Joining, index: usize) void {
            const job = &self.jobs[index];
            var start = job.joined_start;
            for ([2][]const u32{ job.bridge.ids.items, job.list.ids.items[job.skipped..] }) |some| {
                @memcpy(self.joined[start..][0..some.len], some);
                start += some.len;
            }
            job.list.ids.clearAndFree(job.list.gpa);
        }
    };

    fn free(self: *Batch, jobs: *Jobs) void {
        for (jobs.items) |*job| {
            job.list.ids.deinit(job.list.gpa);
            job.bridge.ids.deinit(self.gpa);
        }
        jobs.deinit(self.gpa);
    }
};
