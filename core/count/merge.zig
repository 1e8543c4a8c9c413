//! Sorted sources of entries → one, with equal entries added up.
//!
//! A heap contains the sources, ordered by their next entries. At most `runs_max` sources are open
//! at a time. More files are merged in several passes.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const counts = @import("../count.zig");
const Failure = @import("../failure.zig").Failure;
const Heap = @import("../heap.zig").Heap;
const Reader = @import("reader.zig").Reader;
const Writer = @import("writer.zig").Writer;

/// Files that are read at the same time, each with a block of about 256 KB.
const runs_max = 256;

/// The number of entries between two calls of the poll.
const entries_between = 1 << 16;

/// Merges sources of one type, which has `next() Error!?Entry`. Sources must not move.
pub fn Merge(comptime Source: type) type {
    return struct {
        const Self = @This();
        const Head = struct { entry: counts.Entry, source: *Source, weight: f64 };

        gpa: Allocator,
        heap: Heap(Head, ByBytes, 2) = .{},
        bytes: std.ArrayList(u8) = .empty,

        pub fn deinit(self: *Self) void {
            self.heap.deinit(self.gpa);
            self.bytes.deinit(self.gpa);
        }

        /// The counts of a source are multiplied by its weight.
        pub fn add(self: *Self, source: *Source, weight: f64) counts.Error!void {
            const entry = try source.next() orelse return;
            const head: Head = .{ .entry = entry, .source = source, .weight = weight };
            try self.heap.push(self.gpa, .{}, head);
        }

        /// Returns the next entry, whose count may be 0 because of its weight. Valid until the next
        /// call.
        pub fn next(self: *Self) counts.Error!?counts.Entry {
            const first = self.heap.first() orelse return null;
            self.bytes.clearRetainingCapacity();
            try self.bytes.appendSlice(self.gpa, first.entry.bytes);
            var count: u64 = 0;
            while (self.heap.first()) |head| {
                if (!std.mem.eql(u8, head.entry.bytes, self.bytes.items)) break;
                const weighted = scale(head.entry.count, head.weight) orelse
                    return error.CountTooLarge;
                count = std.math.add(u64, count, weighted) catch return error.CountTooLarge;
                if (try head.source.next()) |entry| {
                    const source, const weight = .{ head.source, head.weight };
                    self.heap.replace(.{}, .{ .entry = entry, .source = source, .weight = weight });
                } else _ = self.heap.pop(.{});
            }
            return .{ .bytes = self.bytes.items, .count = count };
        }

        const ByBytes = struct {
            pub fn isBefore(_: ByBytes, a: Head, b: Head) bool {
                return std.mem.lessThan(u8, a.entry.bytes, b.entry.bytes);
            }
        };
    };
}

/// Returns a count times a weight, rounded half up; null if it is 2^64 or more. The weight must be
/// finite and not negative. The result is exact: a weight is an integer times a power of two.
pub fn scale(count: u64, weight: f64) ?u64 {
    if (weight == 1) return count;
    if (weight == 0 or count == 0) return 0;
    const bits: u64 = @bitCast(weight);
    const exponent_bits: i32 = @intCast(bits >> 52 & 0x7FF);
    const fraction = bits & ((1 << 52) - 1);
    const mantissa: u64 = if (exponent_bits == 0) fraction else fraction | 1 << 52;
    const exponent = (if (exponent_bits == 0) 1 else exponent_bits) - 1075;
    const product = @as(u128, count) * mantissa;
    if (exponent >= 0) {
        if (product >> 64 != 0 or exponent >= 64) return null;
        return std.math.shlExact(u64, @intCast(product), @intCast(exponent)) catch null;
    }
    // Less than 2^117, so half of the shifted-out part can be added.
    if (exponent <= -120) return 0;
    const shift: u7 = @intCast(-exponent);
    return std.math.cast(u64, (product + (@as(u128, 1) << (shift - 1))) >> shift);
}

/// Returns the reason if weights do not fit to so many files.
pub fn weightFailureOf(weights: []const f64, files: usize) ?Failure {
    if (weights.len != files) {
        const format = "expected one weight per file, got {d} weights for {d} files";
        return .init(.value, format, .{ weights.len, files });
    }
    for (weights) |weight| {
        if (weight >= 0 and std.math.isFinite(weight)) continue;
        const format = "a weight must be a finite number of at least 0, got {d}";
        return .init(.input, format, .{weight});
    }
    return null;
}

/// Merges files of counts into one. `weightFailureOf` must return null for the weights.
pub fn mergeFiles(
    gpa: Allocator,
    paths: []const []const u8,
    weights: []const f64,
    output: []const u8,
    metadata: []const u8,
    report: *counts.Report,
    poll: ?platform.threads.Poll,
) counts.Error!void {
    std.debug.assert(weightFailureOf(weights, paths.len) == null);
    var passes: Passes = .{ .gpa = gpa, .report = report, .poll = poll };
    defer passes.deinit();
    for (paths, weights) |path, weight| {
        try passes.runs.append(gpa, .{ .path = path, .weight = weight });
    }
    while (passes.runs.items.len - passes.done > runs_max) {
        const name = try std.fmt.allocPrint(gpa, "{s}.{d}.part", .{ output, passes.done });
        {
            errdefer gpa.free(name);
            try passes.mergeNext(runs_max, name, "{}");
        }
        errdefer passes.discard(name);
        try passes.runs.append(gpa, .{ .path = name, .weight = 1, .is_ours = true });
    }
    try passes.mergeNext(passes.runs.items.len - passes.done, output, metadata);
}

const Run = struct { path: []const u8, weight: f64, is_ours: bool = false };

const Passes = struct {
    gpa: Allocator,
    report: *counts.Report,
    poll: ?platform.threads.Poll,
    runs: std.ArrayList(Run) = .empty,
    /// The number of runs that are merged into later ones.
    done: usize = 0,

    fn deinit(self: *Passes) void {
        for (self.runs.items[self.done..]) |run| if (run.is_ours) self.discard(run.path);
        self.runs.deinit(self.gpa);
    }

    fn discard(self: *Passes, path: []const u8) void {
        platform.files.delete(path);
        self.gpa.free(path);
    }

    /// Merges the next `count` runs into a file.
    fn mergeNext(
        self: *Passes,
        count: usize,
        output: []const u8,
        metadata: []const u8,
    ) counts.Error!void {
        const runs = self.runs.items[self.done..][0..count];
        const readers = try self.gpa.alloc(Reader, count);
        defer self.gpa.free(readers);
        var opened: usize = 0;
        defer for (readers[0..opened]) |*reader| reader.close();
        var merge: Merge(Reader) = .{ .gpa = self.gpa };
        defer merge.deinit();
        for (readers, runs) |*reader, run| {
            reader.* = try .open(self.gpa, run.path, self.report);
            opened += 1;
        }
        for (readers, runs) |*reader, run| try merge.add(reader, run.weight);
        var writer: Writer = try .create(self.gpa, output, metadata, self.report);
        {
            errdefer writer.abandon();
            try writeAll(&writer, &merge, self.poll);
        }
        try writer.finish();
        for (runs) |run| if (run.is_ours) self.discard(run.path);
        self.done += count;
    }
};

/// Writes all entries of a sorted source.
pub fn writeAll(writer: *Writer, source: anytype, poll: ?platform.threads.Poll) counts.Error!void {
    var written: usize = 0;
    while (try source.next()) |entry| {
        try writer.add(entry);
        written += 1;
        if (written % entries_between != 0) continue;
        const some = poll orelse continue;
        if (some.function(some.context)) return error.Interrupted;
    }
}

test "merge: weights round half up, exactly" {
    const cases = [_]struct { u64, f64, ?u64 }{
        .{ 0, 2.5, 0 },
        .{ 1, 2.5, 3 },
        .{ 3, 0.5, 2 },
        .{ 1, 0.25, 0 },
        .{ 5, 0.1, 1 },
        .{ 4, 0.1, 0 },
        .{ std.math.maxInt(u64), 1, std.math.maxInt(u64) },
        .{ std.math.maxInt(u64), 1.5, null },
        .{ std.math.maxInt(u64), 0.5, 1 << 63 },
        .{ 1 << 62, 2, 1 << 63 },
        .{ 1 << 62, 4, null },
        .{ 1, 0x1p63, 1 << 63 },
        .{ 1, 0x1p64, null },
        .{ 7, 5e-324, 0 },
        .{ 3, 1e300, null },
        .{ (1 << 53) + 1, 3, 3 * ((1 << 53) + 1) },
    };
    for (cases) |case| try std.testing.expectEqual(case[2], scale(case[0], case[1]));
}
