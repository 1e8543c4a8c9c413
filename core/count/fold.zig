//! The tallies of all threads → one inventory.
//!
//! A range of hashes is consecutive in each table, and each thread adds up one range at a time. An
//! entry of a later table is looked up in the earlier ones, added there, and set to 0. So there are
//! no insertions and no locks. All tables are read in the order of hashes, so look-ups are close to
//! each other in memory. Then each range writes its entries after those of the ranges before it.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const counts = @import("../count.zig");
const words_ = @import("words.zig");
const strings_ = @import("strings.zig");
const Inventory = @import("inventory.zig").Inventory;
const Tally = @import("tally.zig").Tally;

/// With fewer entries, a thread costs more than it saves.
const entries_in_range = 1 << 14;

/// The part of a sum that exceeds its slot.
const Carry = struct {
    tally: *Tally,
    more: u64,
    which: union(enum) { word: words_.Key, string: strings_.Place },
};

const Range = struct {
    entries: usize = 0,
    bytes: usize = 0,
    carries: std.ArrayList(Carry) = .empty,
    failure: ?counts.Error = null,
};

const Fold = struct {
    gpa: Allocator,
    tallies: []const *Tally,
    ranges: []Range,
    inventory: ?Inventory = null,
};

/// Adds up equal entries of the tallies, so that each is in one tally only, and copies all entries
/// to an inventory.
pub fn take(
    gpa: Allocator,
    tallies: []const *Tally,
    threads: usize,
) counts.Error!Inventory {
    var fold: Fold = .{ .gpa = gpa, .tallies = tallies, .ranges = &.{} };
    fold.ranges = try run(&fold, threads);
    defer gpa.free(fold.ranges);
    var entries: usize = 0;
    var bytes: usize = 0;
    for (fold.ranges) |*range| {
        // From here on it has the start of each range.
        const here = range.*;
        range.entries = entries;
        range.bytes = bytes;
        entries += here.entries;
        bytes += here.bytes;
    }
    fold.inventory = try .init(gpa, entries, bytes);
    platform.threads.run(threads, fold.ranges.len, &fold, writeRange);
    return fold.inventory.?;
}

/// Returns the folded ranges, which the caller owns.
fn run(fold: *Fold, threads: usize) counts.Error![]Range {
    const gpa = fold.gpa;
    var entries: usize = 0;
    for (fold.tallies) |tally| entries += tally.words.entries + tally.strings.entries;
    const ranges = try gpa.alloc(Range, @min(1 + entries / entries_in_range, 16 * threads));
    errdefer gpa.free(ranges);
    @memset(ranges, .{});
    defer for (ranges) |*range| range.carries.deinit(gpa);
    fold.ranges = ranges;
    platform.threads.run(threads, ranges.len, fold, foldRange);
    for (ranges) |*range| {
        if (range.failure) |failure| return failure;
        for (range.carries.items) |carry| switch (carry.which) {
            .word => |key| try carry.tally.words.addMore(gpa, key, carry.more),
            .string => |place| try carry.tally.strings.addMore(gpa, place, carry.more),
        };
    }
    return ranges;
}

fn foldRange(fold: *Fold, index: usize) void {
    const range = &fold.ranges[index];
    for (fold.tallies, 0..) |tally, number| {
        foldWords(fold, range, index, tally, number) catch |failure| {
            range.failure = failure;
        };
        foldStrings(fold, range, index, tally, number) catch |failure| {
            range.failure = failure;
        };
    }
    // Each entry is now in one table only.
    for (fold.tallies) |tally| {
        var words = tally.words.range(index, fold.ranges.len);
        while (words.next()) |found| if (found.count.* != 0) {
            range.entries += 1;
            range.bytes += words_.lengthOf(tally.secret.bytesOf(found.key));
        };
        var strings = tally.strings.range(index, fold.ranges.len);
        while (strings.next()) |slot| if (slot.count() != 0) {
            const len = tally.strings.arena.get(slot.place()).len;
            if (len > counts.bytes_max) range.failure = error.PretokenTooLong;
            range.entries += 1;
            range.bytes += len;
        };
    }
}

fn foldWords(
    fold: *Fold,
    range: *Range,
    index: usize,
    tally: *Tally,
    number: usize,
) counts.Error!void {
    if (number == 0) return;
    var words = tally.words.range(index, fold.ranges.len);
    while (words.next()) |found| {
        if (found.count.* == 0) continue;
        for (fold.tallies[0..number]) |other| {
            const count = other.words.find(found.key) orelse continue;
            const more = tally.words.moreOf(found.key);
            const sum = @as(u64, count.*) + found.count.* + more;
            const low = (sum - 1) % words_.count_max + 1;
            count.* = @intCast(low);
            found.count.* = 0;
            if (sum != low) try range.carries.append(fold.gpa, .{
                .tally = other,
                .more = sum - low,
                .which = .{ .word = found.key },
            });
            break;
        }
    }
}

fn foldStrings(
    fold: *Fold,
    range: *Range,
    index: usize,
    tally: *Tally,
    number: usize,
) counts.Error!void {
    if (number == 0) return;
    var strings = tally.strings.range(index, fold.ranges.len);
    while (strings.next()) |slot| {
        if (slot.count() == 0) continue;
        const piece = tally.strings.arena.get(slot.place());
        for (fold.tallies[0..number]) |other| {
            const there = other.strings.find(slot.hash, piece) orelse continue;
            const sum = there.count() + slot.count() + tally.strings.moreOf(slot.place());
            const low = (sum - 1) % strings_.count_max + 1;
            there.setCount(low);
            slot.setCount(0);
            if (sum != low) try range.carries.append(fold.gpa, .{
                .tally = other,
                .more = sum - low,
                .which = .{ .string = there.place() },
            });
            break;
        }
    }
}

fn writeRange(fold: *Fold, index: usize) void {
    const inventory = fold.inventory.?;
    var entry = fold.ranges[index].entries;
    var start = fold.ranges[index].bytes;
    for (fold.tallies) |tally| {
        var words = tally.words.range(index, fold.ranges.len);
        while (words.next()) |found| {
            if (found.count.* == 0) continue;
            const filled = tally.secret.bytesOf(found.key);
            const len = words_.lengthOf(filled);
            @memcpy(inventory.bytes[start..][0..len], filled[0..len]);
            inventory.lengths[entry] = @intCast(len);
            inventory.counts[entry] = found.count.* + tally.words.moreOf(found.key);
            start += len;
            entry += 1;
        }
        var strings = tally.strings.range(index, fold.ranges.len);
        while (strings.next()) |slot| {
            if (slot.count() == 0) continue;
            const piece = tally.strings.arena.get(slot.place());
            @memcpy(inventory.bytes[start..][0..piece.len], piece);
            inventory.lengths[entry] = @intCast(piece.len);
            inventory.counts[entry] = slot.count() + tally.strings.moreOf(slot.place());
            start += piece.len;
            entry += 1;
        }
    }
}

/// Returns the entries of a tally in the order of the text, which is the order of their places.
pub fn takeOrdered(gpa: Allocator, tally: *Tally) counts.Error!Inventory {
    var slots: std.ArrayList(*const strings_.Slot) = .empty;
    defer slots.deinit(gpa);
    var bytes: usize = 0;
    var range = tally.strings.range(0, 1);
    while (range.next()) |slot| {
        const len = tally.strings.arena.get(slot.place()).len;
        if (len > counts.bytes_max) return error.PretokenTooLong;
        bytes += len;
        try slots.append(gpa, slot);
    }
    std.mem.sortUnstable(*const strings_.Slot, slots.items, {}, isBefore);
    const inventory: Inventory = try .init(gpa, slots.items.len, bytes);
    var start: usize = 0;
    for (slots.items, inventory.lengths, inventory.counts) |slot, *length, *count| {
        const piece = tally.strings.arena.get(slot.place());
        @memcpy(inventory.bytes[start..][0..piece.len], piece);
        length.* = @intCast(piece.len);
        count.* = slot.count() + tally.strings.moreOf(slot.place());
        start += piece.len;
    }
    return inventory;
}

fn isBefore(_: void, a: *const strings_.Slot, b: *const strings_.Slot) bool {
    return a.place() < b.place();
}

test "fold: sums beyond a slot are exact" {
    const gpa = std.testing.allocator;
    var tallies: [3]*Tally = undefined;
    var made: usize = 0;
    defer for (tallies[0..made]) |tally| tally.destroy();
    const long = "a pretoken of more than sixteen bytes";
    for (&tallies) |*tally| {
        tally.* = try .create(gpa, 99, false);
        made += 1;
        for ([_][]const u8{ "word", long }) |piece| try tally.*.addAlone(piece);
        var words = tally.*.words.range(0, 1);
        words.next().?.count.* = words_.count_max;
        var strings = tally.*.strings.range(0, 1);
        strings.next().?.setCount(strings_.count_max);
        for ([_][]const u8{ "word", long }) |piece| try tally.*.addAlone(piece);
    }
    var inventory = try take(gpa, &tallies, 2);
    defer inventory.deinit(gpa);
    try std.testing.expectEqual(2, inventory.counts.len);
    var source = inventory.source();
    while (try source.next()) |entry| {
        const expected: u64 = if (std.mem.eql(u8, entry.bytes, "word"))
            3 << 32
        else
            3 * (strings_.count_max + 1);
        try std.testing.expectEqual(expected, entry.count);
    }
}
