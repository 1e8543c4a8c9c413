//! Texts → jobs, each of which one thread runs alone.
//!
//! Adjacent short texts form jobs of about equal size. A long text becomes several jobs. It is
//! split at added tokens, and the documents between them at offsets where the pretokens stay the
//! same (pretokens/cuts.zig). Text without such offsets, and any text with a compiled pattern, is
//! split into chunks with estimated starts (parts.zig).

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const added_ = @import("../added.zig");
const cuts = @import("../pretokens/cuts.zig");
const encoder_ = @import("encoder.zig");
const parts = @import("parts.zig");
const Document = @import("../preprocess/document.zig").Document;
const Encoder = encoder_.Encoder;
const Error = encoder_.Error;
const List = encoder_.List;

/// Minimum size of a job: starting a thread costs as much as encoding a few hundred bytes.
const job_bytes_min = 64 * 1024;
/// More jobs than threads, so that one slow job does not delay the end of the run.
const jobs_per_thread = 8;
/// Minimum size of a chunk: a few pretokens may be encoded twice where two chunks meet.
const part_bytes_min = 256 * 1024;
/// Approximate maximum size of a job, so that its ids are still in the CPU's cache when they are
/// copied.
pub var job_bytes_max: std.atomic.Value(usize) = .init(512 * 1024);

pub const Work = union(enum) {
    /// All texts up to this index.
    texts: usize,
    /// A range of a text between two added tokens, and its offset in the text.
    piece: struct { bytes: []const u8, offset: usize },
    /// A document, or the text between two cuts of one.
    document: []const u8,
    part: parts.Part,
};

pub const Job = struct {
    /// Index of the first or only text.
    text: usize,
    work: Work,
    list: List,
    /// For a chunk: ids to insert before the list, and the number of ids of the list to skip.
    gap_ids: List,
    skipped: usize = 0,
    /// Whether it was joined to the previous chunk.
    is_joined: bool = false,
    /// Output offset of its ids.
    start: usize = 0,
    failure: ?Error = null,
    missing_byte: u8 = 0,
    /// Set when its thread has finished it.
    is_done: std.atomic.Value(bool) = .init(false),

    /// Returns the number of bytes of text in this job.
    pub fn textBytes(self: *const Job, texts: []const []const u8) usize {
        return switch (self.work) {
            .texts => |end| bytesOf(texts[self.text..end]),
            .piece => |piece| piece.bytes.len,
            .document => |document| document.len,
            .part => |part| part.limit - part.from,
        };
    }

    /// Returns the number of ids that it adds to the result, given the `total` of its own ids.
    pub fn added(self: *const Job, total: usize) usize {
        return self.gap_ids.total() + total - self.skipped;
    }
};

pub fn bytesOf(texts: []const []const u8) usize {
    var bytes: usize = 0;
    for (texts) |text| bytes += text.len;
    return bytes;
}

pub const Jobs = struct {
    gpa: Allocator,
    /// Whether only the numbers of ids are needed.
    only_counts: bool,
    list: std.ArrayList(Job) = .empty,
    /// Documents whose bytes differ from the text, owned.
    made: std.ArrayList([]const u8) = .empty,

    pub fn deinit(self: *Jobs) void {
        for (self.made.items) |bytes| self.gpa.free(bytes);
        self.made.deinit(self.gpa);
        for (self.list.items) |*job| {
            job.list.deinit();
            job.gap_ids.deinit();
        }
        self.list.deinit(self.gpa);
    }

    /// Plans the jobs for the texts. `encoder` is used only to find split points. Each text belongs
    /// to at least one job. If `may_be_one`, a single thread gets a single job.
    pub fn plan(
        self: *Jobs,
        encoder: *Encoder,
        texts: []const []const u8,
        allowed: ?[]const u8,
        threads: usize,
        may_be_one: bool,
    ) Error!void {
        if (threads == 1 and texts.len > 0 and may_be_one) {
            return self.add(0, .{ .texts = texts.len });
        }
        // Joining chunks encodes their overlap again, which must produce the same ids.
        const may_cut = encoder.tokenizer.preprocessor.isSimple() and !encoder.tokenizer.isRandom();
        const share = bytesOf(texts) / (threads * jobs_per_thread);
        const most = @max(1, job_bytes_max.load(.monotonic));
        const job_bytes = @min(@max(job_bytes_min, share), most);
        const part_bytes = @min(@max(part_bytes_min, share), most);
        var start: usize = 0;
        var bytes: usize = 0;
        for (texts, 0..) |text, index| {
            if (text.len >= 2 * part_bytes and may_cut) {
                if (start < index) try self.add(start, .{ .texts = index });
                const planned = self.list.items.len;
                try self.planLong(index, encoder, text, allowed, part_bytes);
                if (self.list.items.len == planned) {
                    // The text has no documents, but its `before` and `after` ids are still needed.
                    try self.add(index, .{ .texts = index + 1 });
                }
            } else {
                bytes += text.len;
                if (bytes < job_bytes and index + 1 < texts.len) continue;
                try self.add(start, .{ .texts = index + 1 });
            }
            start = index + 1;
            bytes = 0;
        }
    }

    fn add(self: *Jobs, text: usize, work: Work) Allocator.Error!void {
        try self.list.append(self.gpa, .{
            .text = text,
            .work = work,
            // The pages of job lists are returned to the OS after the last copy.
            .list = .{ .gpa = platform.memory.pages, .only_counts = self.only_counts },
            .gap_ids = .{ .gpa = self.gpa, .only_counts = self.only_counts },
        });
    }

    /// Plans the jobs of one long text: the documents between added tokens, with long documents
    /// split.
    fn planLong(
        self: *Jobs,
        index: usize,
        encoder: *Encoder,
        text: []const u8,
        allowed: ?[]const u8,
        part_bytes: usize,
    ) Error!void {
        const preprocessor = &encoder.tokenizer.preprocessor;
        var planned: usize = 0;
        var start: usize = 0;
        var effort: added_.Effort = .{ .gpa = self.gpa };
        defer effort.deinit();
        const choice = preprocessor.choiceOf(allowed);
        var matches = preprocessor.raw.in(text, choice orelse "", &effort);
        while (true) {
            const found = if (choice == null) null else matches.next();
            const end = if (found) |some| some.start else text.len;
            // A pre-tokenizer of several stages has no known restart points before it has run.
            if (end - start >= 2 * part_bytes and encoder.tokenizer.scheme != .stages) {
                if (planned < start) try self.addPiece(index, text, planned, start);
                const document = try self.documentOf(encoder, .of(text, start, end, 0));
                try self.planDocument(index, encoder, document, part_bytes);
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

    /// Returns the document of a segment, valid as long as the jobs.
    fn documentOf(
        self: *Jobs,
        encoder: *Encoder,
        segment: Document,
    ) Allocator.Error![]const u8 {
        const document = try encoder.tokenizer.preprocessor.documentOf(&encoder.scratch, segment);
        if (document.bytes.ptr == segment.bytes.ptr) return document.bytes;
        // Takes the buffer over, since the next document would overwrite it.
        try self.made.ensureUnusedCapacity(self.gpa, 1);
        self.made.appendAssumeCapacity(try encoder.scratch.bytes.toOwnedSlice(self.gpa));
        return self.made.getLast();
    }

    /// Plans the jobs of a long document.
    fn planDocument(
        self: *Jobs,
        index: usize,
        encoder: *Encoder,
        document: []const u8,
        part_bytes: usize,
    ) Error!void {
        if (!cuts.fits(&encoder.tokenizer.scheme)) {
            return self.planParts(index, encoder, document, part_bytes);
        }
        var start: usize = 0;
        while (start < document.len) {
            const is_last = document.len - start < part_bytes + part_bytes / 2;
            const cut = if (is_last) null else cuts.find(document, start + part_bytes);
            const piece = document[start .. cut orelse document.len];
            if (piece.len >= 2 * part_bytes) {
                try self.planParts(index, encoder, piece, part_bytes);
            } else try self.add(index, .{ .document = piece });
            start += piece.len;
        }
    }

    /// Plans chunks with estimated starts.
    fn planParts(
        self: *Jobs,
        index: usize,
        encoder: *Encoder,
        document: []const u8,
        part_bytes: usize,
    ) Error!void {
        var from: usize = 0;
        while (from < document.len) {
            const rest = document.len - from;
            const limit = if (rest < part_bytes + part_bytes / 2)
                document.len
            else
                try parts.probableStart(encoder, document, from + part_bytes);
            try self.add(index, .{
                .part = .{ .document = document, .from = from, .limit = limit },
            });
            from = limit;
        }
    }
};
