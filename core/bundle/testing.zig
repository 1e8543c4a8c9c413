//! Bundles of each kind → tokenizers, and damaged or forged bundles → errors.

const std = @import("std");
const bundles = @import("../bundle.zig");
const examples = @import("../examples.zig").examples;
const serialized = @import("../pretokens/serialized.zig");
const Allocator = std.mem.Allocator;
const Batch = @import("../encode/batch.zig").Batch;
const Bundle = bundles.Bundle;
const Encoder = @import("../encode/encoder.zig").Encoder;
const Failure = @import("../failure.zig").Failure;
const List = @import("../encode/list.zig").List;

const testing = std.testing;

const image = "TMV1\x02\x01\x00\x00\x04\x01\x00\x00\x00\x00\x00\x00" ++ all_bytes ++ image_pairs;

/// a b and c d, of 8 and of 9 bits each.
const image_pairs = std.mem.asBytes(&@as(u64, 97 | 98 << 8 | 99 << 16 | 100 << 25))[0..5];

const all_bytes: [256]u8 = blk: {
    var bytes: [256]u8 = undefined;
    for (&bytes, 0..) |*byte, value| byte.* = value;
    break :blk bytes;
};

/// Prepend "▁", replace " " with "▁", lower case.
const steps = "\x02\x00\x00\x00\x03\x00\x00\x00\x00\x00\x00\x00\u{2581}" ++
    "\x03\x00\x00\x00\x01\x00\x00\x00\x03\x00\x00\x00 \u{2581}" ++
    "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00";

/// One bundle of each kind.
pub const samples = [_]Bundle{
    .{
        .kind = .image,
        .arrays = .{
            .tokens = image,
            .names = "<a><b>",
            .name_lengths = &.{ 3, 3 },
            .name_ids = &.{ 300, 5 },
            .name_flags = "\x01\x06",
            .scheme = "o200k",
        },
    },
    .{
        .kind = .ranks,
        .arrays = .{
            .tokens = "abc abbc ab",
            .lengths = &.{ 1, 1, 1, 1, 2, 2, 3 },
            .ids = &.{ 0, 1, 2, 3, 7, 5, 9 },
            .scheme = serialized.stages_magic ++ "\x01\x00\x00\x00\x00\x00\x00\x00" ++
                "\x03\x02\x01\x00\x00\x00\x00\x00",
        },
    },
    .{
        .kind = .model,
        .flags = .{
            .characters = true,
            .space_marker = true,
            .fuse_unk = true,
            .has_merges = true,
        },
        .missing = .unk,
        .prefix = .always,
        .unk = 20,
        .arrays = .{
            .tokens = "ab\u{2581}<unk>\u{4f60}ab\u{2581}ab",
            .lengths = &.{ 1, 1, 3, 5, 3, 2, 5 },
            .ids = &.{ 4, 2, 9, 20, 1, 7, 8 },
            .kinds = "\x00\x00\x00\x02\x00\x00\x00",
            .merges = &.{ 0, 1, 2, 5 },
            .names = "<unk>",
            .name_lengths = &.{5},
            .name_ids = &.{20},
            .name_flags = "\x11",
            .steps = steps,
            .scheme = "metaspace",
        },
    },
};

const text = "A ab cd\u{4f60}abc <a>aab<unk>\u{2581}ab \u{e9}\xff 12";

/// Loads a bundle, and uses the tokenizer.
pub fn use(gpa: Allocator, bytes: []const u8) !void {
    var failure: Failure = undefined;
    var tokenizer = try bundles.load(gpa, bytes, 7, &failure);
    defer tokenizer.deinit(gpa);
    var encoder: Encoder = .init(gpa, &tokenizer);
    defer encoder.deinit();
    var list: List = .{ .gpa = gpa };
    defer list.deinit();
    encoder.encode(text, null, &list) catch |reason| switch (reason) {
        error.MissingByte => return,
        else => return reason,
    };
    tokenizer.vocabulary.publish(list.ids.items);
    for (list.ids.items) |id| _ = tokenizer.idBytes(id);
}

test "bundle: what is written is read and loaded" {
    const gpa = testing.allocator;
    for (&samples) |*sample| {
        const bytes = try sample.write(gpa);
        defer gpa.free(bytes);
        try testing.expectEqualDeep(sample.*, try Bundle.read(bytes));
        try use(gpa, bytes);
        const moved = try gpa.alloc(u8, bytes.len + 1);
        defer gpa.free(moved);
        @memcpy(moved[1..], bytes);
        try use(gpa, moved[1..]);
    }
}

test "bundle: a batch without threads is encoded by the caller" {
    const gpa = testing.allocator;
    const bytes = try samples[0].write(gpa);
    defer gpa.free(bytes);
    var failure: Failure = undefined;
    var tokenizer = try bundles.load(gpa, bytes, 7, &failure);
    defer tokenizer.deinit(gpa);
    var counts: [3][]i64 = undefined;
    for (&counts, [_]usize{ 0, 1, std.math.maxInt(usize) }) |*found, threads| {
        var batch: Batch = .{
            .gpa = gpa,
            .tokenizer = &tokenizer,
            .texts = &.{ text, "", "ab" },
            .allowed = null,
            .threads = threads,
        };
        found.* = try batch.count();
    }
    defer for (counts) |found| gpa.free(found);
    try testing.expectEqual(1, counts[0][2]);
    for (counts) |found| try testing.expectEqualSlices(i64, counts[0], found);
}

test "bundle: a dropout outside 0 to 1 is refused with its value" {
    var sample = samples[2];
    for ([_]f64{ 0, 0.25, 1 }) |dropout| {
        sample.dropout = dropout;
        try testing.expectEqual(null, sample.failureOf());
    }
    for ([_]f64{ -0.5, 1.5 }, [_][]const u8{ "-0.5", "1.5" }) |dropout, shown| {
        sample.dropout = dropout;
        const failure = sample.failureOf().?;
        try testing.expectStringEndsWith(failure.text(), shown);
    }
    sample.dropout = std.math.nan(f64);
    try testing.expect(sample.failureOf() != null);
}

test "bundle: running out of memory leaks no memory" {
    for (&samples) |*sample| {
        const bytes = try sample.write(testing.allocator);
        defer testing.allocator.free(bytes);
        try testing.checkAllAllocationFailures(testing.allocator, use, .{bytes});
    }
}

test "bundle: every truncation and every change of a byte is rejected" {
    const gpa = testing.allocator;
    for (&samples) |*sample| {
        const bytes = try sample.write(gpa);
        defer gpa.free(bytes);
        for (0..bytes.len) |at| {
            const part = try gpa.alignedAlloc(u8, .@"4", at);
            defer gpa.free(part);
            @memcpy(part, bytes[0..at]);
            try testing.expectError(error.InvalidBundle, Bundle.read(part));
            bytes[at] ^= @as(u8, 1) << @intCast(at % 8);
            defer bytes[at] ^= @as(u8, 1) << @intCast(at % 8);
            try testing.expectError(error.InvalidBundle, Bundle.read(bytes));
        }
    }
}

test "bundle: forged arrays are rejected or used" {
    var prng: std.Random.DefaultPrng = .init(testing.random_seed);
    const random = prng.random();
    for (0..examples(2_000)) |_| try tryForged(testing.allocator, random);
}

/// Changes a few numbers of a bundle, which then has the right checksum, and loads it.
pub fn tryForged(gpa: Allocator, random: std.Random) !void {
    const bytes = try samples[random.uintLessThan(usize, samples.len)].write(gpa);
    defer gpa.free(bytes);
    for (0..random.intRangeAtMost(usize, 1, 4)) |_| {
        const in_header = random.boolean();
        const at = if (in_header)
            random.intRangeLessThan(usize, 16, bundles.header_bytes - 3)
        else
            random.intRangeLessThan(usize, 16, bytes.len - 3);
        switch (random.uintLessThan(u8, 4)) {
            0 => bytes[at] = random.int(u8),
            1 => bytes[at] ^= @as(u8, 1) << random.int(u3),
            2 => std.mem.writeInt(u32, bytes[at..][0..4], random.int(u32), .little),
            else => {
                const near = std.mem.readInt(u32, bytes[at..][0..4], .little);
                const step: u32 = @bitCast(random.intRangeAtMost(i32, -8, 8));
                std.mem.writeInt(u32, bytes[at..][0..4], near +% step, .little);
            },
        }
    }
    bundles.seal(bytes);
    use(gpa, bytes) catch |reason| switch (reason) {
        error.Rejected => {},
        else => return reason,
    };
}
