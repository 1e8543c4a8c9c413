//! Document → batches of pretokens, in order.
//!
//! A batch is a memory range and the ends of the contiguous pretokens in it. At least `overread`
//! bytes after its end are readable, so scanning and cache lookups need no checks for the end of
//! the text. For that purpose the last bytes of the text are copied to a padded buffer.

const std = @import("std");
const Allocator = std.mem.Allocator;
const pretokens = @import("../pretokens.zig");
const blocks = @import("blocks.zig");
const levels = @import("levels.zig");
const Cutter = @import("stages.zig").Cutter;
const Matcher = @import("../pattern/matcher.zig").Matcher;

/// Number of readable bytes after the end of a batch.
pub const overread = 16;
/// When at most this many bytes are left, they are copied to the buffer. A short text is copied at
/// once and is one batch.
const tail_len = 512;
/// A longer pretoken is a batch of its own.
pub const piece_len_max = 4096;
/// Maximum number of pretokens that the scalar scanner finds before a block is tried again.
const alone_max = 16;
/// Offsets in a batch stay below this.
const batch_len_max = 1 << 30;

comptime {
    std.debug.assert(blocks.reach + overread <= tail_len);
}

pub const Batch = struct {
    /// Its offset in the document.
    start: usize,
    bytes: [*]const u8,
    /// The ends, relative to `bytes`. The next pretoken starts where one ends. Empty if the batch
    /// is a single pretoken that is too long or contains a byte that is not UTF-8.
    ends: []const u32,
    /// The end of the last pretoken.
    len: usize,

    /// Whether the ends ascend to the length, as every user of a batch expects.
    pub fn isOrdered(self: Batch) bool {
        var start: u32 = 0;
        for (self.ends) |end| {
            if (end <= start) return false;
            start = end;
        }
        return self.ends.len == 0 or start == self.len;
    }

    /// Returns the pretokens from `first` to before `end` as a batch, with its ends in `ends`.
    pub fn part(self: Batch, first: usize, end: usize, ends: *[blocks.ends_max]u32) Batch {
        const start = if (first == 0) 0 else self.ends[first - 1];
        for (self.ends[first..end], ends[0 .. end - first]) |old, *new| new.* = old - start;
        return .{
            .start = self.start + start,
            .bytes = self.bytes + start,
            .ends = ends[0 .. end - first],
            .len = if (end == first) 0 else ends[end - first - 1],
        };
    }

    /// Returns the pretokens that start before `limit`, an offset in the document.
    pub fn before(self: Batch, limit: usize) Batch {
        var taken = self;
        for (self.ends, 1..) |end, count| {
            if (self.start + end < limit) continue;
            taken.ends = self.ends[0..count];
            taken.len = end;
            break;
        }
        return taken;
    }
};

pub const Sweep = struct {
    /// A pretoken of at most this many bytes is padded to a key with 0xFF.
    pub const padded_len_max = 16;

    text: []const u8,
    scheme: *const pretokens.Scheme,
    matcher: ?Matcher,
    cutter: ?Cutter,
    index: usize = 0,
    /// A match of the matcher, or a piece of the cutter, that is not yet in a batch.
    held: ?Held = null,
    /// One past the last byte on which the pretokens of a program, or of stages, up to `index`
    /// depend.
    reach: usize = 0,
    /// End of the piece of the first stage that contains the last pretoken.
    outer_end: usize = 0,
    /// The cached runs of a growing text.
    known: ?*pretokens.Known = null,
    /// Offset of the tail, once it is in the buffer.
    tail_start: ?usize = null,
    tail: [tail_len + blocks.reach + overread]u8 = undefined,
    ends: [blocks.ends_max]u32 = undefined,

    pub fn init(
        self: *Sweep,
        gpa: Allocator,
        scheme: *const pretokens.Scheme,
        text: []const u8,
    ) void {
        self.text = text;
        self.scheme = scheme;
        self.index = 0;
        self.held = null;
        self.reach = 0;
        self.outer_end = 0;
        self.known = null;
        self.tail_start = null;
        self.matcher = switch (scheme.*) {
            .program => |*program| .init(gpa, program, text),
            else => null,
        };
        self.cutter = switch (scheme.*) {
            .stages => |*several| .init(gpa, several, text),
            else => null,
        };
    }

    pub fn deinit(self: *Sweep) void {
        if (self.matcher) |*matcher| matcher.deinit();
        if (self.cutter) |*cutter| cutter.deinit();
    }

    /// Whether a new sweep from `index` would continue like this one.
    pub fn canRestart(self: *const Sweep) bool {
        return self.scheme.* != .stages or self.index == self.outer_end;
    }

    pub fn next(self: *Sweep) error{OutOfMemory}!?Batch {
        if (self.index >= self.text.len) return null;
        switch (self.scheme.*) {
            .program, .stages => return self.match(),
            else => return self.scan(),
        }
    }

    fn scan(self: *Sweep) Batch {
        const start = self.index;
        const left = self.text.len - start;
        const bytes = self.readable(start);
        const is_whole = left <= tail_len;
        const scanned: u32 = @intCast(if (is_whole) left else @min(left - tail_len, batch_len_max));
        const fill = levels.scanners()[@intFromEnum(self.scheme.*)];
        const safe = self.scheme.safely();
        var filled: blocks.Filled = .{};
        var alone: u32 = 1;
        while (true) {
            const count = filled.count;
            filled = fill(bytes, scanned, is_whole, &self.ends, filled, safe);
            if (!filled.hasRoom() or filled.end >= scanned) break;
            // The scalar scanner finds the pretokens that a block cannot decide. If several blocks
            // in a row decide none, as in binary data, it finds more and more of them before the
            // next block is tried.
            alone = if (filled.count == count) @min(2 * alone, alone_max) else 1;
            const goes_on = for (0..alone) |_| {
                const from = start + filled.end;
                const end = pretokens.endFrom(self.scheme, self.text, from, self.known);
                if (!isPlain(self.text[from..end]) or end - start > batch_len_max) {
                    if (filled.count != 0) break false;
                    self.index = end;
                    return .{ .start = start, .bytes = bytes, .ends = &.{}, .len = end - start };
                }
                filled.end = @intCast(end - start);
                self.ends[filled.count] = filled.end;
                filled.count += 1;
                // After the last whole block the text is read from the buffer.
                if (filled.end + blocks.reach > scanned) break is_whole;
            } else true;
            if (!goes_on or filled.end >= scanned) break;
        }
        self.index = start + filled.end;
        return .{
            .start = start,
            .bytes = bytes,
            .ends = self.ends[0..filled.count],
            .len = filled.end,
        };
    }

    const Held = struct { found: pretokens.Span, reach: usize, outer_end: usize };

    fn match(self: *Sweep) error{OutOfMemory}!?Batch {
        const first = try self.nextMatch() orelse {
            self.index = self.text.len;
            return null;
        };
        const start = first.found.start;
        const bytes = self.readable(start);
        self.take(first);
        var batch = self.single(start, bytes);
        // Adds contiguous matches while the bytes after them are readable.
        while (batch.ends.len != 0 and batch.ends.len < self.ends.len) {
            if (self.index + tail_len > self.text.len and self.tail_start == null) break;
            const next_ = try self.nextMatch() orelse {
                self.index = self.text.len;
                break;
            };
            const found = next_.found;
            // A pretoken that depends on the end of the text is separate, since it may change when
            // the text grows.
            const is_sure = next_.reach <= self.text.len or next_.outer_end == self.outer_end;
            const follows = found.start == self.index and is_sure;
            if (!follows or found.end - start > batch_len_max or
                !isPlain(self.text[found.start..found.end]))
            {
                self.held = next_;
                break;
            }
            self.take(next_);
            self.ends[batch.ends.len] = @intCast(found.end - start);
            batch.ends = self.ends[0 .. batch.ends.len + 1];
            batch.len = found.end - start;
        }
        return batch;
    }

    fn nextMatch(self: *Sweep) error{OutOfMemory}!?Held {
        if (self.held) |held| {
            self.held = null;
            return held;
        }
        if (self.cutter) |*cutter| {
            const piece = try cutter.next(self.index);
            if (piece == null) self.reach = self.text.len + 1;
            const found = piece orelse return null;
            return .{ .found = found, .reach = cutter.reach(), .outer_end = cutter.outerEnd() };
        }
        const found = try self.matcher.?.next(self.index);
        const reach = self.matcher.?.reach;
        if (found == null) self.reach = @max(self.reach, reach);
        const match_ = found orelse return null;
        const span: pretokens.Span = .{ .start = match_.start, .end = match_.end };
        return .{ .found = span, .reach = reach, .outer_end = match_.end };
    }

    fn take(self: *Sweep, match_: Held) void {
        self.index = match_.found.end;
        self.outer_end = match_.outer_end;
        self.reach = @max(self.reach, match_.reach);
    }

    /// Returns the batch of one pretoken from `start` to `self.index`.
    fn single(self: *Sweep, start: usize, bytes: [*]const u8) Batch {
        const len = self.index - start;
        var batch: Batch = .{ .start = start, .bytes = bytes, .ends = &.{}, .len = len };
        if (!isPlain(self.text[start..self.index])) return batch;
        self.ends[0] = @intCast(len);
        batch.ends = self.ends[0..1];
        return batch;
    }

    /// Returns the text from `start`, with `overread` readable bytes after its end.
    fn readable(self: *Sweep, start: usize) [*]const u8 {
        if (self.tail_start) |tail_start| return self.tail[start - tail_start ..].ptr;
        if (self.text.len - start > tail_len) return self.text[start..].ptr;
        const left = self.text[start..];
        @memcpy(self.tail[0..left.len], left);
        @memset(self.tail[left.len..][0 .. blocks.reach + overread], 0);
        self.tail_start = start;
        return &self.tail;
    }
};

/// Whether a pretoken can be a key padded with 0xFF, or is too long for that but not for a batch.
fn isPlain(piece: []const u8) bool {
    if (piece.len > Sweep.padded_len_max) return piece.len <= piece_len_max;
    return std.mem.indexOfScalar(u8, piece, 0xFF) == null;
}
