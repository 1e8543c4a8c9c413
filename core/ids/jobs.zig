//! Texts → jobs, each of which one thread does alone.
//!
//! Neighbouring texts form jobs of about equal bytes; a long text is several jobs, cut at added
//! tokens where it has them and else into parts (parts.zig).

const std = @import("std");
const Allocator = std.mem.Allocator;
const added_ = @import("../added.zig");
const ids = @import("../ids.zig");
const parts = @import("parts.zig");
const Document = @import("document.zig").Document;

/// A job is at least this many bytes: starting a thread costs as much as encoding a few hundred.
const job_bytes_min = 64 * 1024;
/// More jobs than threads, so that one slow job does not keep the others waiting at the end.
const jobs_per_thread = 8;
/// Where parts meet, a few pretokens may be encoded twice.
const part_bytes_min = 256 * 1024;
/// About so many bytes are a job at most: its ids then go out from a near cache.
pub var job_bytes_max: std.atomic.Value(usize) = .init(512 * 1024);

pub const Work = union(enum) {
    /// All texts up to this one.
    texts_end: usize,
    /// A piece of a text, from one added token to another, and where in the text it begins.
    piece: struct { bytes: []const u8, offset: usize },
    part: parts.Part,
};

pub const Job = struct {
    /// The first text, or the only one.
    text: usize,
    work: Work,
    list: ids.List,
    count: ids.Count = .{},
    /// Of a part: ids that go before the list, and how many of the list do not count.
    bridge: ids.List,
    skipped: usize = 0,
    /// Whether it was joined to the part before it.
    is_joined: bool = false,
    /// Where its ids go.
    start: usize = 0,
    failure: ?ids.Error = null,
    missing_byte: u8 = 0,
    /// The thread that works on it has ended with it.
    is_done: std.atomic.Value(bool) = .init(false),

    /// How much text it has.
    pub fn textBytes(self: *const Job, texts: []const []const u8) usize {
        return switch (self.work) {
            .texts_end => |end| bytesOf(texts[self.text..end]),
            .piece => |piece| piece.bytes.len,
            .part => |part| part.limit - part.from,
        };
    }

    /// How many ids it adds to the result; `total` is what it has itself.
    pub fn added(self: *const Job, total: usize) usize {
        return self.bridge.total() + total - self.skipped;
    }
};

pub fn bytesOf(texts: []const []const u8) usize {
    var bytes: usize = 0;
    for (texts) |text| bytes += text.len;
    return bytes;
}

pub const Jobs = struct {
    gpa: Allocator,
    list: std.ArrayList(Job) = .empty,
    /// Documents that are not as they are in their text.
    made: std.ArrayList([]const u8) = .empty,

    pub fn deinit(self: *Jobs) void {
        for (self.made.items) |bytes| self.gpa.free(bytes);
        self.made.deinit(self.gpa);
        for (self.list.items) |*job| {
            job.list.ids.deinit(job.list.gpa);
            job.bridge.ids.deinit(job.bridge.gpa);
        }
        self.list.deinit(self.gpa);
    }

    /// Plans the jobs for texts; `encoder` is only asked where a text can be cut. Each text has a
    /// job; if they `may_be_one`, one thread has one job.
    pub fn plan(
        self: *Jobs,
        encoder: *ids.Encoder,
        texts: []const []const u8,
        allowed: ?[]const u8,
        threads: usize,
        may_be_one: bool,
    ) ids.Error!void {
        if (threads == 1 and texts.len > 0 and may_be_one) {
            return self.add(0, .{ .texts_end = texts.len });
        }
        // Parts are joined by encoding what they share once more, which has to give the same.
        const may_cut = encoder.tokenizer.front.isSimple() and !encoder.tokenizer.isRandom();
        const share = bytesOf(texts) / (threads * jobs_per_thread);
        const most = @max(1, job_bytes_max.load(.monotonic));
        const job_bytes = @min(@max(job_bytes_min, share), most);
        const part_bytes = @min(@max(part_bytes_min, share), most);
        var start: usize = 0;
        var bytes: usize = 0;
        for (texts, 0..) |text, index| {
            if (text.len >= 2 * part_bytes and may_cut) {
                if (start < index) try self.add(start, .{ .texts_end = index });
                const planned = self.list.items.len;
                try self.planLong(index, encoder, text, allowed, part_bytes);
                if (self.list.items.len == planned) {
                    // Nothing is left of it, but what comes before and after it is.
                    try self.add(index, .{ .texts_end = index + 1 });
                }
            } else {
                bytes += text.len;
                if (bytes < job_bytes and index + 1 < texts.len) continue;
                try self.add(start, .{ .texts_end = index + 1 });
            }
            start = index + 1;
            bytes = 0;
        }
    }

    fn add(self: *Jobs, text: usize, work: Work) Allocator.Error!void {
        try self.list.append(self.gpa, .{
            .text = text,
            .work = work,
            // Lists of jobs go back to the system when the last of them is copied.
            .list = .{ .gpa = std.heap.page_allocator },
            .bridge = .{ .gpa = self.gpa },
        });
    }

    /// The jobs of one long text: documents between added tokens, of which the long ones are cut.
    fn planLong(
        self: *Jobs,
        index: usize,
        encoder: *ids.Encoder,
        text: []const u8,
        allowed: ?[]const u8,
        part_bytes: usize,
    ) ids.Error!void {
        const front = &encoder.tokenizer.front;
        var planned: usize = 0;
        var start: usize = 0;
        var effort: added_.Effort = .{ .gpa = self.gpa };
        defer effort.deinit();
        const choice = front.choiceOf(allowed);
        var matches = front.raw.in(text, choice orelse "", &effort);
        while (true) {
            const found = if (choice == null) null else matches.next();
            const end = if (found) |some| some.start else text.len;
            // Where stages may begin anew is not known before all is cut.
            if (end - start >= 2 * part_bytes and encoder.tokenizer.scheme != .stages) {
                if (planned < start) try self.addPiece(index, text, planned, start);
                const document = try self.documentOf(encoder, .of(text, start, end, 0));
                try self.planParts(index, encoder, document, part_bytes);
                planned = end;
            } else if (end - planned >= part_bytes or found == null) {
                try self.addPiece(index, text, planned, end);
                planned = end;
            }
            start = if (found) |some| some.end else return;
        }
    }

    fn addPiece(
        self: *Jobs,
        index: usize,
        text: []const u8,
        start: usize,
        end: usize,
    ) Allocator.Error!void {
        const bytes = text[start..end];
        try self.add(index, .{ .piece = .{ .bytes = bytes, .offset = start } });
    }

    /// The document of a segment, which lives as long as the jobs.
    fn documentOf(
        self: *Jobs,
        encoder: *ids.Encoder,
        segment: Document,
    ) Allocator.Error![]const u8 {
        const document = try encoder.tokenizer.front.documentOf(&encoder.scratch, segment);
        if (document.bytes.ptr == segment.bytes.ptr) return document.bytes;
        // The scratch memory would be used for the next one.
        try self.made.ensureUnusedCapacity(self.gpa, 1);
        self.made.appendAssumeCapacity(try encoder.scratch.bytes.toOwnedSlice(self.gpa));
        return self.made.getLast();
    }

    fn planParts(
        self: *Jobs,
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
            try self.add(index, .{
                .part = .{ .document = document, .from = from, .limit = limit },
            });
            from = limit;
        }
    }
};
