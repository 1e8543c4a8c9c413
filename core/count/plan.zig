//! Texts → jobs for several threads.
//!
//! Neighbouring texts form jobs of about a megabyte. A long text is cut at proven cuts
//! (pretokens/cuts.zig). With a pattern without its own scanner, a long text is cut at special
//! tokens, and between them at estimated starts (parts.zig).

const std = @import("std");
const Allocator = std.mem.Allocator;
const pretokens = @import("../pretokens.zig");
const Effort = @import("../added.zig").Effort;
const Names = @import("../added.zig").Names;
const cuts = @import("../pretokens/cuts.zig");
const findBetween = @import("cuts.zig").findBetween;
const parts = @import("parts.zig");

/// A job is about this many bytes: a few milliseconds of counting.
const job_bytes = 1 << 20;

/// Parts with estimated starts per thread. Each may scan a long run again.
const parts_per_thread = 8;

pub const Job = union(enum) {
    /// Neighbouring texts.
    texts: []const []const u8,
    /// The text between two cuts of a long text.
    piece: []const u8,
    /// The number of a part with an estimated start.
    part: usize,
};

/// The rules that turn texts into pretokens. All special tokens are allowed.
pub const Rules = struct {
    scheme: *const pretokens.Scheme,
    specials: *const Names,
    allowed: []const u8,
};

pub const Plan = struct {
    gpa: Allocator,
    rules: Rules,
    jobs: std.ArrayList(Job) = .empty,
    parts: std.ArrayList(parts.Part) = .empty,

    pub fn init(
        gpa: Allocator,
        rules: Rules,
        texts: []const []const u8,
        workers: usize,
    ) Allocator.Error!Plan {
        var self: Plan = .{ .gpa = gpa, .rules = rules };
        errdefer self.deinit();
        var start: usize = 0;
        var bytes: usize = 0;
        for (texts, 0..) |text, index| {
            const is_long = workers > 1 and text.len >= 2 * job_bytes;
            bytes += text.len;
            if (!is_long and bytes < job_bytes and index + 1 < texts.len) continue;
            const end = if (is_long) index else index + 1;
            if (start < end) try self.jobs.append(gpa, .{ .texts = texts[start..end] });
            if (is_long and !cuts.fits(rules.scheme)) {
                try self.addEstimated(text, workers);
            } else if (is_long) try self.addCuts(text);
            start = index + 1;
            bytes = 0;
        }
        return self;
    }

    pub fn deinit(self: *Plan) void {
        self.jobs.deinit(self.gpa);
        self.parts.deinit(self.gpa);
    }

    /// Adds the jobs of a long text with proven cuts.
    fn addCuts(self: *Plan, text: []const u8) Allocator.Error!void {
        var start: usize = 0;
        while (start < text.len) {
            const cut = if (text.len - start < 2 * job_bytes)
                null
            else
                findBetween(text, start + job_bytes, self.rules.specials);
            const end = cut orelse text.len;
            try self.jobs.append(self.gpa, .{ .piece = text[start..end] });
            start = end;
        }
    }

    /// Adds the jobs of a long text without proven cuts: documents between special tokens. Long
    /// documents are cut at estimated starts, unless stages may restart anywhere.
    fn addEstimated(self: *Plan, text: []const u8, workers: usize) Allocator.Error!void {
        const part_bytes = @max(job_bytes, text.len / (workers * parts_per_thread));
        var planned: usize = 0;
        var start: usize = 0;
        var effort: Effort = .{ .gpa = self.gpa };
        defer effort.deinit();
        const allowed = self.rules.allowed;
        var search = self.rules.specials.search(text, 0, allowed, &effort);
        while (true) {
            const found = if (allowed.len > 0) search.next() else null;
            const end = if (found) |special| special.start else text.len;
            if (end - start >= 2 * part_bytes and self.rules.scheme.* != .stages) {
                if (planned < start) {
                    try self.jobs.append(self.gpa, .{ .piece = text[planned..start] });
                }
                try self.addParts(text[start..end], part_bytes);
                planned = end;
            } else if (end - planned >= job_bytes or found == null) {
                try self.jobs.append(self.gpa, .{ .piece = text[planned..end] });
                planned = end;
            }
            start = if (found) |special| special.end else return;
        }
    }

    fn addParts(self: *Plan, document: []const u8, part_bytes: usize) Allocator.Error!void {
        var from: usize = 0;
        while (from < document.len) {
            const is_last = document.len - from < part_bytes + part_bytes / 2;
            const limit = if (is_last)
                document.len
            else
                cuts.probableStart(document, from + part_bytes);
            try self.jobs.append(self.gpa, .{ .part = self.parts.items.len });
            try self.parts.append(
                self.gpa,
                .{ .document = document, .from = from, .limit = limit },
            );
            from = limit;
        }
    }
};
