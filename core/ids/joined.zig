//! The ids of jobs, in whatever order they are done → one list, in the order of the jobs.
//!
//! A thread that has done a job asks for places. If nobody is giving any it gives them itself: to
//! all jobs in a row that are done, in order. If somebody is, it goes on with its next job, and
//! who gives them looks again before leaving. So nobody waits and no job is forgotten. Then the
//! ids are copied to their places, by whoever is there, and the list they came from is used for a
//! later job: its pages are there, and near.
//!
//! **Invariant** the memory of the result moves only when all that has a place is copied.

const std = @import("std");
const Allocator = std.mem.Allocator;
const ids = @import("../ids.zig");
const parts = @import("parts.zig");
const Job = @import("jobs.zig").Job;
const Output = @import("output.zig").Output;
const roomFor = @import("output.zig").roomFor;

pub const Goal = enum { encode, count };
const Atomic = std.atomic.Value;

/// Lists that wait for a job, at most, and how large they may be: a run without an end is one job.
const spare_max = 64;
const spare_bytes_max = 8 << 20;

pub const Joined = struct {
    jobs: []Job,
    goal: Goal,
    /// Of each text, its number of ids: for texts that are several jobs it is added up here.
    counts: []i64,
    output: *Output,
    /// Set when a job fails: what the others do is of no use any more.
    stopped: *Atomic(bool),
    failure: ?ids.Error = null,
    missing_byte: u8 = 0,

    /// How often places were asked for since somebody began to give them; 0: nobody does.
    asked: Atomic(usize) = .init(0),
    /// How many jobs have a place, how many of them somebody copies, and how many are copied.
    placed: Atomic(usize) = .init(0),
    copying: Atomic(usize) = .init(0),
    copied: Atomic(usize) = .init(0),
    /// Where the ids of the document end that the last part belongs to.
    document_end: usize = 0,
    /// Jobs that are copied, and whose lists can be had.
    spare: [spare_max]Atomic(?*Job) = @splat(.init(null)),

    /// Gives a job an empty list with room for what most texts need.
    pub fn prepare(self: *Joined, job: *Job, text_bytes: usize) void {
        for (&self.spare) |*place| {
            if (place.load(.monotonic) == null) continue;
            const other = place.swap(null, .acquire) orelse continue;
            std.mem.swap(ids.List, &job.list, &other.list);
            break;
        }
        job.list.ids.ensureTotalCapacity(job.list.gpa, roomFor(text_bytes)) catch {};
    }

    /// Takes over what a job has, or has failed with. Only the thread of the `caller` may do what
    /// takes long, because it sees signals; it comes once more when all jobs are done.
    pub fn advance(self: *Joined, encoder: *ids.Encoder, is_caller: bool) void {
        while (true) {
            self.givePlaces(encoder, is_caller);
            if (self.goal == .count or !self.copyNext()) return;
        }
    }

    fn givePlaces(self: *Joined, encoder: *ids.Encoder, is_caller: bool) void {
        if (self.asked.fetchAdd(1, .acq_rel) != 0) return;
        var answered: usize = 1;
        while (true) {
            while (self.failure == null) {
                const gave = self.givePlace(encoder, is_caller) catch |failure| {
                    self.failure = failure;
                    self.stopped.store(true, .monotonic);
                    break;
                };
                if (!gave) break;
            }
            answered = self.asked.cmpxchgStrong(answered, 0, .acq_rel, .acquire) orelse return;
        }
    }

    /// Gives a place to the next job; false if it is not yet time for that.
    fn givePlace(self: *Joined, encoder: *ids.Encoder, is_caller: bool) ids.Error!bool {
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
                self.missing_byte = encoder.missing_byte;
                return failure;
            };
            if (!joined) return false;
            job.is_joined = true;
        }
        if (self.goal == .encode) {
            const len = job.added(job.list.total()) + self.edgesOf(index);
            if (!try self.makeRoom(index, len)) return false;
            job.start = self.output.take(len);
        }
        self.placed.store(index + 1, .release);
        return true;
    }

    /// Joins a part to the one before it, and adds up what long texts have.
    fn joinJob(self: *Joined, job: *Job, encoder: *ids.Encoder, is_caller: bool) ids.Error!bool {
        const total = if (self.goal == .encode) job.list.total() else job.count.total();
        var bridged: ids.Count = .{};
        switch (job.work) {
            .texts_end => return true,
            .piece => {},
            .part => |*part| if (part.from == 0) {
                self.document_end = part.end;
            } else {
                job.bridge.reset();
                const end = self.document_end;
                const joint = switch (self.goal) {
                    .encode => try parts.join(encoder, part, end, total, &job.bridge, is_caller),
                    .count => try parts.join(encoder, part, end, total, &bridged, is_caller),
                } orelse return false;
                self.document_end = joint.end;
                job.skipped = joint.skipped;
            },
        }
        self.counts[job.text] += @intCast(bridged.count + job.added(total));
        return true;
    }

    /// Room for `len` more ids behind those of the jobs below `index`; false while there is none.
    fn makeRoom(self: *Joined, index: usize, len: usize) Allocator.Error!bool {
        if (self.output.hasRoom(len)) return true;
        // Who copies the last of them asks for places again.
        if (self.copied.load(.acquire) != index) return false;
        try self.output.makeRoom(len);
        return true;
    }

    /// How many ids come before and after the texts of a job.
    fn edgesOf(self: *const Joined, index: usize) usize {
        const before, const after = .{ self.output.before.len, self.output.after.len };
        const job = &self.jobs[index];
        return switch (job.work) {
            .texts_end => |end| (end - job.text) * (before + after),
            .piece, .part => before * @intFromBool(self.isFirst(index)) +
                after * @intFromBool(self.isLast(index)),
        };
    }

    /// Whether a job of a long text is the first one of it.
    fn isFirst(self: *const Joined, index: usize) bool {
        return index == 0 or self.jobs[index - 1].text != self.jobs[index].text;
    }

    fn isLast(self: *const Joined, index: usize) bool {
        return index + 1 == self.jobs.len or self.isFirst(index + 1);
    }

    /// Copies the ids of a job to their place; false if there is none to be copied.
    fn copyNext(self: *Joined) bool {
        var index = self.copying.load(.monotonic);
        while (true) {
            if (index >= self.placed.load(.acquire)) return false;
            index = self.copying.cmpxchgWeak(index, index + 1, .monotonic, .monotonic) orelse break;
        }
        const job = &self.jobs[index];
        self.copyJob(job, index);
        job.bridge.ids.clearAndFree(job.bridge.gpa);
        self.giveList(job);
        _ = self.copied.fetchAdd(1, .acq_rel);
        return true;
    }

    fn copyJob(self: *Joined, job: *const Job, index: usize) void {
        const output = self.output;
        const own = job.list.ids.items[job.skipped..];
        var place = job.start;
        switch (job.work) {
            .texts_end => |end| if (output.hasEdges()) {
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
            .piece, .part => {
                if (self.isFirst(index)) place = output.put(place, output.before);
                place = output.copy(place, job.bridge.ids.items);
                place = output.copy(place, own);
                if (self.isLast(index)) _ = output.put(place, output.after);
            },
        }
    }

    /// Leaves the list of a job to a later one.
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
