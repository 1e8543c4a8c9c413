//! Attempts → outcomes that need not be computed again in this document.
//!
//! The matcher has two caches. A `LoopCache` belongs to one loop over a character class. It
//! contains the last run of the class that the loop scanned, and the offsets at which its
//! continuation failed. The `Memo` stores the outcome of continuing with an instruction at an
//! offset, for long attempts only. Both are valid for the whole document, independent of the start
//! of an attempt.

const std = @import("std");
const unicode = @import("../unicode.zig");

pub const no_offset = std.math.maxInt(usize);

/// The text near the last run of a loop. Both ranges are empty at first.
pub const LoopCache = struct {
    /// From each offset in [run_start, run_end] the class continues up to run_end.
    run_start: usize = 1,
    run_end: usize = 0,
    /// At each offset in [failed_low, failed_high] the continuation of the loop fails.
    failed_low: usize = 1,
    failed_high: usize = 0,

    pub inline fn hasRun(self: *const LoopCache, offset: usize) bool {
        return self.run_start <= offset and offset <= self.run_end;
    }

    pub inline fn failedAt(self: *const LoopCache, offset: usize) bool {
        return self.failed_low <= offset and offset <= self.failed_high;
    }

    /// Records that the continuation fails at `offset`. The range grows downwards if it is
    /// adjacent.
    pub fn failBelow(self: *LoopCache, text: []const u8, offset: usize) void {
        if (self.failedAt(offset)) return;
        const touches = self.failed_low <= self.failed_high and offset < self.failed_low and
            offset + unicode.decode(text, offset).len == self.failed_low;
        if (!touches) self.failed_high = offset;
        self.failed_low = offset;
    }

    /// Records that the continuation fails at `offset`. The range grows upwards if it `touches`,
    /// which means that the loop can move from the range to the offset.
    pub fn failAbove(self: *LoopCache, offset: usize, touches: bool) void {
        if (self.failedAt(offset)) return;
        if (!touches) self.failed_low = offset;
        self.failed_high = offset;
    }
};

/// Failure, or the offset where the group of the instruction ends.
pub const Outcome = enum(usize) { failed = no_offset, _ };

pub const Memo = struct {
    /// A cleared memo with more slots than this frees its memory.
    const slots_max = 1 << 16;

    outcomes: std.AutoHashMapUnmanaged(u64, Outcome) = .empty,
    offset_max: usize = 0,

    pub fn deinit(self: *Memo, gpa: std.mem.Allocator) void {
        self.outcomes.deinit(gpa);
    }

    pub inline fn isEmpty(self: *const Memo) bool {
        return self.outcomes.size == 0;
    }

    pub fn get(self: *const Memo, pc: u32, offset: usize) ?Outcome {
        return self.outcomes.get(key(pc, offset));
    }

    pub fn put(
        self: *Memo,
        gpa: std.mem.Allocator,
        pc: u32,
        offset: usize,
        outcome: Outcome,
    ) error{OutOfMemory}!void {
        try self.outcomes.put(gpa, key(pc, offset), outcome);
        self.offset_max = @max(self.offset_max, offset);
    }

    /// Drops all outcomes if they are before `start`.
    pub fn forgetBefore(self: *Memo, gpa: std.mem.Allocator, start: usize) void {
        if (!self.isEmpty() and start > self.offset_max) self.clear(gpa);
    }

    pub fn clear(self: *Memo, gpa: std.mem.Allocator) void {
        // Fast path: the matcher of a stage is reset often.
        if (self.isEmpty()) return;
        if (self.outcomes.capacity() > slots_max) {
            self.outcomes.clearAndFree(gpa);
        } else {
            self.outcomes.clearRetainingCapacity();
        }
        self.offset_max = 0;
    }

    /// A program has at most 2^16 instructions, and a text less than 2^48 bytes.
    fn key(pc: u32, offset: usize) u64 {
        return @as(u64, pc) << 48 | offset;
    }
};
