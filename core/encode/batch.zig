//! Texts → the ids of all texts in one array, on several threads.
//!
//! jobs.zig splits the texts into jobs. Threads take the jobs in order, and joined.zig concatenates
//! their ids in order, so the result never depends on the number of threads.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const encoder_ = @import("encoder.zig");
const jobs_ = @import("jobs.zig");
const joined_ = @import("joined.zig");
const Encoder = encoder_.Encoder;
const Error = encoder_.Error;
pub const Goal = @import("../cache.zig").Goal;
const Job = jobs_.Job;
const Joined = joined_.Joined;
const List = encoder_.List;
const Output = joined_.Output;
const Tokenizer = @import("tokenizer.zig").Tokenizer;

pub const job_bytes_max = &jobs_.job_bytes_max;
pub const reserve = joined_.reserve;
pub const Ragged = @import("ragged.zig").Ragged;

/// A shorter text is encoded by the calling thread alone.
const long_text_len = 1 << 20;

pub fn isForThreads(text: []const u8, threads: usize) bool {
    return text.len >= long_text_len and threads > 1;
}

pub const Documents = struct {
    ids: union(enum) { wide: []u32, narrow: []u16 },
    /// Document i ends before `ids[ends[i]]`, where document i + 1 begins.
    ends: []i64,
};

pub const Batch = struct {
    gpa: Allocator,
    tokenizer: *const Tokenizer,
    texts: []const []const u8,
    allowed: ?[]const u8,
    threads: usize,
    /// Called on the caller's thread.
    poll: ?platform.threads.Poll = null,
    /// Set with error.MissingByte.
    missing_byte: u8 = 0,

    /// Whether the result has the public ids of the file. Otherwise it has ranks.
    is_public: bool = true,

    /// Returns ids and offsets, owned by the caller.
    pub fn encode(self: *Batch) Error!Ragged {
        const offsets = try self.gpa.alloc(i64, self.texts.len + 1);
        errdefer self.gpa.free(offsets);
        var output: Output = self.outputOf(.{ .wide = .empty });
        errdefer output.deinit();
        try self.run(.ids, offsets[1..], &output);
        offsets[0] = 0;
        for (offsets[1..], offsets[0..self.texts.len]) |*end, start| end.* += start;
        return .{ .ids = try output.numbers.wide.toOwnedSlice(self.gpa), .offsets = offsets };
    }

    /// Encodes each text as a document, with the public ids `before` and `after` around it. If
    /// `narrow`, every id must fit in 16 bits.
    pub fn encodeDocuments(
        self: *Batch,
        before: []const u32,
        after: []const u32,
        narrow: bool,
    ) Error!Documents {
        const ends = try self.gpa.alloc(i64, self.texts.len);
        errdefer self.gpa.free(ends);
        var output: Output =
            self.outputOf(if (narrow) .{ .narrow = .empty } else .{ .wide = .empty });
        output.before = before;
        output.after = after;
        errdefer output.deinit();
        try self.run(.ids, ends, &output);
        var end: i64 = 0;
        for (ends) |*place| {
            end += place.* + @as(i64, @intCast(before.len + after.len));
            place.* = end;
        }
        return .{ .ends = ends, .ids = switch (output.numbers) {
            .wide => |*list| .{ .wide = try list.toOwnedSlice(self.gpa) },
            .narrow => |*list| .{ .narrow = try list.toOwnedSlice(self.gpa) },
        } };
    }

    fn outputOf(self: *Batch, numbers: Output.Numbers) Output {
        return .{
            .gpa = self.gpa,
            .numbers = numbers,
            .published = if (self.is_public) &self.tokenizer.vocabulary else null,
        };
    }

    /// Returns the number of ids of each text, owned by the caller.
    pub fn count(self: *Batch) Error![]i64 {
        const counts = try self.gpa.alloc(i64, self.texts.len);
        errdefer self.gpa.free(counts);
        var output: Output = self.outputOf(.{ .wide = .empty });
        try self.run(.number, counts, &output);
        return counts;
    }

    fn run(self: *Batch, goal: Goal, counts: []i64, output: *Output) Error!void {
        @memset(counts, 0);
        var encoder: Encoder = .init(self.gpa, self.tokenizer);
        defer encoder.deinit();
        var stop: platform.threads.Stop = .{ .poll = self.poll };
        encoder.merger.poll = stop.pollOf(0);
        var jobs: jobs_.Jobs = .{ .gpa = self.gpa, .only_counts = goal == .number };
        defer jobs.deinit();
        const is_plain = output.isPlain();
        const threads = std.math.clamp(self.threads, 1, platform.threads.threads_max);
        try jobs.plan(&encoder, self.texts, self.allowed, threads, is_plain);
        if (goal == .ids) output.reserve(jobs_.bytesOf(self.texts), self.texts.len);
        const items = jobs.list.items;
        if (items.len == 1 and items[0].work == .texts and is_plain) {
            // With a single job the ids are written directly to the result.
            errdefer self.missing_byte = encoder.merger.missing_byte;
            if (goal == .number) {
                return self.encodeJob(&items[0], &encoder, counts, &items[0].list);
            }
            var list: List = .{ .gpa = self.gpa, .ids = output.numbers.wide };
            defer output.numbers.wide = list.ids;
            try self.encodeJob(&items[0], &encoder, counts, &list);
            if (output.published) |vocabulary| vocabulary.publish(list.ids.items);
            return;
        }
        var joined: Joined = .{
            .jobs = items,
            .goal = goal,
            .counts = counts,
            .output = output,
            .stop = &stop,
        };
        var work: Work = .{
            .batch = self,
            .joined = &joined,
            .queue = .{ .len = items.len },
            .caller_encoder = &encoder,
        };
        platform.threads.workers(@min(threads, items.len), &work, Work.run);
        joined.advance(&encoder, true);
        self.missing_byte = joined.missing_byte;
        if (joined.failure) |failure| return failure;
        if (joined.placed.raw < items.len) return error.Interrupted;
        const is_copied = goal == .number or joined.copied.raw == items.len;
        platform.check(is_copied, "the ids of every job are copied");
    }

    /// The data that the threads of one call share.
    const Work = struct {
        batch: *Batch,
        joined: *Joined,
        queue: platform.threads.Queue,
        caller_encoder: *Encoder,

        /// Runs jobs until none are left. One encoder serves all of them, so its cached data stays
        /// in the CPU's caches.
        fn run(self: *Work, worker: usize) void {
            if (worker == 0) return self.drain(self.caller_encoder, true);
            if (self.queue.isEmpty()) return;
            var encoder: Encoder = .init(self.batch.gpa, self.batch.tokenizer);
            defer encoder.deinit();
            encoder.merger.poll = self.joined.stop.pollOf(worker);
            self.drain(&encoder, false);
        }

        fn drain(self: *Work, encoder: *Encoder, is_caller: bool) void {
            while (!self.joined.stop.isSet()) {
                const index = self.queue.take() orelse return;
                const job = &self.joined.jobs[index];
                self.runJob(job, encoder) catch |failure| {
                    job.failure = failure;
                    job.missing_byte = encoder.merger.missing_byte;
                };
                job.is_done.store(true, .release);
                self.joined.advance(encoder, is_caller);
            }
        }

        fn runJob(self: *Work, job: *Job, encoder: *Encoder) Error!void {
            const batch, const joined = .{ self.batch, self.joined };
            if (joined.goal == .ids) joined.prepare(job, job.textBytes(batch.texts));
            try batch.encodeJob(job, encoder, joined.counts, &job.list);
        }
    };

    fn encodeJob(
        self: *Batch,
        job: *Job,
        encoder: *Encoder,
        counts: []i64,
        list: *List,
    ) Error!void {
        switch (job.work) {
            .texts => |end| for (job.text..end) |index| {
                const before = list.total();
                try encoder.encode(self.texts[index], self.allowed, list);
                counts[index] = @intCast(list.total() - before);
            },
            .piece => |piece| try encoder.encodePieces(.{
                .text = piece.bytes,
                .offset = piece.offset,
                .choice = self.tokenizer.preprocessor.choiceOf(self.allowed),
            }, list),
            .document => |document| try encoder.encodeDocument(document, list),
            .part => |*part| try part.encode(encoder, list),
        }
    }
};
