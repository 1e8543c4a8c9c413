//! The ids of jobs, finished in any order → one list, in the order of the jobs.
//!
//! One thread at a time assigns output offsets, in job order, to all finished jobs. Other threads
//! continue with their next job without blocking. The assigning thread checks again before it gives
//! up the role, so every finished job gets an offset. After that, any thread copies the ids. A
//! copied job's list is reused by a later job, since its pages are mapped and in the CPU's cache.
//!
//! **Invariant** the result is reallocated only when all ids with an assigned offset are copied.

const std = @import("std");
const Allocator = std.mem.Allocator;
const encoder_ = @import("encoder.zig");
const parts = @import("parts.zig");
const platform = @import("../platform.zig");
const Encoder = encoder_.Encoder;
const Error = encoder_.Error;
const Goal = @import("../cache.zig").Goal;
const Job = @import("jobs.zig").Job;
const List = encoder_.List;
const Vocabulary = @import("../vocabulary.zig").Vocabulary;

const Atomic = std.atomic.Value;

/// Maximum number of spare lists and their maximum size. One very long run can be a single job.
const spare_max = 64;
const spare_bytes_max = 8 << 20;

pub const Joined = struct {
    jobs: []Job,
    goal: Goal,
    /// Number of ids of each text. For a text of several jobs it is summed up here.
    counts: []i64,
    output: *Output,
    /// Set when a job fails, because the results of the other jobs are then discarded.
    stop: *platform.threads.Stop,
    failure: ?Error = null,
    missing_byte: u8 = 0,

    /// Number of requests to assign offsets since a thread took the role; 0 if no thread has it.
    asked: Atomic(usize) = .init(0),
    /// Number of jobs with an offset, of jobs whose copy has begun, and of jobs that are copied.
    placed: Atomic(usize) = .init(0),
    copying: Atomic(usize) = .init(0),
    copied: Atomic(usize) = .init(0),
    /// End, in its document, of the text whose ids are complete; set by the last chunk.
    document_end: usize = 0,
    /// Copied jobs whose lists can be reused.
    spare: [spare_max]Atomic(?*Job) = @splat(.init(null)),

    /// Gives a job an empty list with enough capacity for most texts.
    pub fn prepare(self: *Joined, job: *Job, text_bytes: usize) void {
        for (&self.spare) |*place| {
            if (place.load(.monotonic) == null) continue;
            const other = place.swap(null, .acquire) orelse continue;
            std.mem.swap(List, &job.list, &other.list);
            break;
        }
        job.list.ids.ensureTotalCapacity(job.list.gpa, roomFor(text_bytes)) catch {};
    }

    /// Takes over the ids or the failure of a job. Slow work is left to the caller's thread, which
    /// handles signals. That thread calls this once more when all jobs are done.
    pub fn advance(self: *Joined, encoder: *Encoder, is_caller: bool) void {
        while (true) {
            self.assignOffsets(encoder, is_caller);
            if (self.goal == .number or !self.copyNext()) return;
        }
    }

    fn assignOffsets(self: *Joined, encoder: *Encoder, is_caller: bool) void {
        if (self.asked.fetchAdd(1, .acq_rel) != 0) return;
        var answered: usize = 1;
        while (true) {
            while (self.failure == null) {
                const gave = self.assignNext(encoder, is_caller) catch |failure| {
                    self.failure = failure;
                    self.stop.stop();
                    break;
                };
                if (!gave) break;
            }
            answered = self.asked.cmpxchgStrong(answered, 0, .acq_rel, .acquire) orelse return;
        }
    }

    /// Assigns an offset to the next job. Returns false if that is not possible yet.
    fn assignNext(self: *Joined, encoder: *Encoder, is_caller: bool) Error!bool {
        const index = self.placed.raw;
        if (index == self.jobs.len) return false;
        const job = &self.jobs[index];
        if (!job.is_done.load(.acquire)) return false;
        if (job.failure) |failure| {
            self.missing_byte = job.missing_byte;
            return failure;
        }
        if (!job.is_joined) {
            const joined = self.joinJob(job, encoder, is_caller) catch |failure| {
                self.missing_byte = encoder.merger.missing_byte;
                return failure;
            };
            if (!joined) return false;
            job.is_joined = true;
        }
        if (self.goal == .ids) {
            const len = job.added(job.list.total()) + self.edgesOf(index);
            if (!try self.makeRoom(index, len)) return false;
            job.start = self.output.take(len);
        }
        self.placed.store(index + 1, .release);
        return true;
    }

    /// Joins a chunk to the previous one, and sums up the counts of long texts.
    fn joinJob(self: *Joined, job: *Job, encoder: *Encoder, is_caller: bool) Error!bool {
        const total = job.list.total();
        switch (job.work) {
            .texts => return true,
            .piece, .document => {},
            .part => |*part| if (part.from == 0) {
                self.document_end = part.end;
            } else {
                job.gap_ids.reset();
                const end = self.document_end;
                const gap_ids = &job.gap_ids;
                const joined = try parts.join(encoder, part, end, total, gap_ids, is_caller) orelse
                    return false;
                self.document_end = joined.end;
                job.skipped = joined.skipped;
            },
        }
        self.counts[job.text] += @intCast(job.added(total));
        return true;
    }

    /// Makes space for `len` more ids after those of the jobs below `index`. Returns false while
    /// that must wait.
    fn makeRoom(self: *Joined, index: usize, len: usize) Allocator.Error!bool {
        if (self.output.hasRoom(len)) return true;
        // The thread that copies the last of them requests offsets again.
        if (self.copied.load(.acquire) != index) return false;
        try self.output.makeRoom(len);
        return true;
    }

    /// Returns the number of `before` and `after` ids that belong to a job.
    fn edgesOf(self: *const Joined, index: usize) usize {
        const before, const after = .{ self.output.before.len, self.output.after.len };
        const job = &self.jobs[index];
        return switch (job.work) {
            .texts => |end| (end - job.text) * (before + after),
            .piece, .document, .part => before * @intFromBool(self.isFirst(index)) +
                after * @intFromBool(self.isLast(index)),
        };
    }

    /// Whether a job is the first one of its long text.
    fn isFirst(self: *const Joined, index: usize) bool {
        return index == 0 or self.jobs[index - 1].text != self.jobs[index].text;
    }

    fn isLast(self: *const Joined, index: usize) bool {
        return index + 1 == self.jobs.len or self.isFirst(index + 1);
    }

    /// Copies the ids of the next job to their offset. Returns false if no job is ready.
    fn copyNext(self: *Joined) bool {
        var index = self.copying.load(.monotonic);
        while (true) {
            if (index >= self.placed.load(.acquire)) return false;
            index = self.copying.cmpxchgWeak(index, index + 1, .monotonic, .monotonic) orelse break;
        }
        const job = &self.jobs[index];
        self.copyJob(job, index);
        job.gap_ids.ids.clearAndFree(job.gap_ids.gpa);
        self.giveList(job);
        _ = self.copied.fetchAdd(1, .acq_rel);
        return true;
    }

    fn copyJob(self: *Joined, job: *const Job, index: usize) void {
        const output = self.output;
        const own = job.list.ids.items[job.skipped..];
        var place = job.start;
        switch (job.work) {
            .texts => |end| if (output.hasEdges()) {
                var from: usize = 0;
                for (self.counts[job.text..end]) |count| {
                    const len: usize = @intCast(count);
                    place = output.put(place, output.before);
                    place = output.copy(place, own[from..][0..len]);
                    place = output.put(place, output.after);
                    from += len;
                }
            } else {
                _ = output.copy(place, own);
            },
            .piece, .document, .part => {
                if (self.isFirst(index)) place = output.put(place, output.before);
                place = output.copy(place, job.gap_ids.ids.items);
                place = output.copy(place, own);
                if (self.isLast(index)) _ = output.put(place, output.after);
            },
        }
    }

    /// Makes the list of a job available to a later job.
    fn giveList(self: *Joined, job: *Job) void {
        job.list.reset();
        const is_small = job.list.ids.capacity * @sizeOf(u32) <= spare_bytes_max;
        if (is_small) for (&self.spare) |*place| {
            if (place.load(.monotonic) != null) continue;
            if (place.cmpxchgStrong(null, job, .release, .monotonic) == null) return;
        };
        job.list.ids.clearAndFree(job.list.gpa);
    }
};

/// The ids of all texts in one array of 32-bit or 16-bit ids, with optional ids before and after
/// each text.
pub const Output = struct {
    gpa: Allocator,
    numbers: Numbers,
    /// The vocabulary that maps ranks to public ids; null if the result contains ranks.
    published: ?*const Vocabulary,
    /// Public ids to insert before and after each text.
    before: []const u32 = &.{},
    after: []const u32 = &.{},

    /// `narrow` requires that every id fits in 16 bits.
    pub const Numbers = union(enum) { wide: std.ArrayList(u32), narrow: std.ArrayList(u16) };

    pub fn deinit(self: *Output) void {
        switch (self.numbers) {
            inline else => |*list| list.deinit(self.gpa),
        }
    }

    /// Whether a list written by an encoder is already the result.
    pub fn isPlain(self: *const Output) bool {
        return self.numbers == .wide and !self.hasEdges();
    }

    pub fn hasEdges(self: *const Output) bool {
        return self.before.len + self.after.len > 0;
    }

    pub fn total(self: *const Output) usize {
        return switch (self.numbers) {
            inline else => |list| list.items.len,
        };
    }

    /// Reserves capacity for the ids of most short texts, or of any long text. If that fails, the
    /// list grows later.
    pub fn reserve(self: *Output, text_bytes: usize, texts: usize) void {
        const edges = texts * (self.before.len + self.after.len);
        switch (self.numbers) {
            inline else => |*list| makeList(self.gpa, list, text_bytes, edges),
        }
    }

    pub fn hasRoom(self: *const Output, len: usize) bool {
        return switch (self.numbers) {
            inline else => |list| len <= list.capacity - list.items.len,
        };
    }

    pub fn makeRoom(self: *Output, len: usize) Allocator.Error!void {
        switch (self.numbers) {
            inline else => |*list| {
                try list.ensureUnusedCapacity(self.gpa, len);
                platform.memory.adviseHuge(list.allocatedSlice());
            },
        }
    }

    /// Claims `len` ids, for which there is capacity, and returns their offset.
    pub fn take(self: *Output, len: usize) usize {
        switch (self.numbers) {
            inline else => |*list| {
                list.items.len += len;
                return list.items.len - len;
            },
        }
    }

    /// Copies ranks that an encoder produced to their offset. Returns the offset after them.
    pub fn copy(self: *Output, place: usize, ranks: []const u32) usize {
        const end = place + ranks.len;
        switch (self.numbers) {
            .wide => |list| {
                const out = list.items[place..end];
                if (self.published) |vocabulary| {
                    vocabulary.copyPublic(out, ranks);
                } else @memcpy(out, ranks);
            },
            .narrow => |list| {
                const public = if (self.published) |some| some.public else null;
                const out = list.items[place..end];
                if (public) |numbers| {
                    for (out, ranks) |*id, rank| {
                        id.* = @intCast(if (rank < numbers.len) numbers[rank] else rank);
                    }
                } else for (out, ranks) |*id, rank| id.* = @intCast(rank);
            },
        }
        return end;
    }

    /// Writes public ids to their offset. Returns the offset after them.
    pub fn put(self: *Output, place: usize, numbers: []const u32) usize {
        switch (self.numbers) {
            inline else => |list| {
                for (list.items[place..][0..numbers.len], numbers) |*id, number| {
                    id.* = @intCast(number);
                }
            },
        }
        return place + numbers.len;
    }
};

/// Estimated number of ids of most texts. Untouched memory costs little, but moving a list does
/// not.
pub fn roomFor(text_bytes: usize) usize {
    return text_bytes / 3 + 16;
}

/// Texts of at least this size get capacity for one id per byte. In scripts with many ids per byte,
/// moving a long list takes longer than encoding part of the text, and the added memory would have
/// small pages.
const long_text_bytes = 1 << 20;

/// Reserves capacity for the ids of most short texts, or of any long text.
pub fn reserve(list: *List, text_bytes: usize) void {
    makeList(list.gpa, &list.ids, text_bytes, 0);
}

fn makeList(gpa: Allocator, list: anytype, text_bytes: usize, extra: usize) void {
    const likely = extra + roomFor(text_bytes);
    const room = if (text_bytes < long_text_bytes) likely else extra + text_bytes + 16;
    list.ensureTotalCapacity(gpa, room) catch {
        list.ensureTotalCapacity(gpa, likely) catch {};
    };
    platform.memory.adviseHuge(list.allocatedSlice());
}
