//! The encoders of this folder → functions that Python calls by ctypes.

const std = @import("std");
const tried = @import("tried.zig");
const vocabularies = @import("vocabulary.zig");

const Encoders = union(enum) {
    naive: @import("step05_naive.zig").Encoder,
    in_place: @import("step06_in_place.zig").Encoder,
    heap: @import("step07_heap.zig").Encoder,
    simd: @import("step08_simd.zig").Encoder,
    tables: @import("step09_tables.zig").Encoder,
    cache: @import("step10_cache.zig").Encoder,
    perfect_hash: tried.PerfectHash,
    automaton: tried.Automaton,
    branchless: tried.Branchless,
    separate_keys: tried.SeparateKeys,
};

/// Returns an encoder by its number, or null without memory. It lives as long as the process.
export fn ladder_open(
    number: u32,
    data: [*]const u8,
    ends: [*]const u32,
    ids: [*]const u32,
    count: usize,
) ?*Encoders {
    const bytes = if (count == 0) 0 else ends[count - 1];
    return open(number, data[0..bytes], ends[0..count], ids[0..count]) catch null;
}

fn open(number: u32, data: []const u8, ends: []const u32, ids: []const u32) !*Encoders {
    const encoder = try vocabularies.gpa.create(Encoders);
    const vocabulary: vocabularies.Vocabulary = try .init(data, ends, ids);
    switch (@as(std.meta.Tag(Encoders), @enumFromInt(number))) {
        inline else => |tag| {
            const Encoder = @FieldType(Encoders, @tagName(tag));
            encoder.* = @unionInit(Encoders, @tagName(tag), try Encoder.init(vocabulary));
        },
    }
    return encoder;
}

/// Encodes a text `times` times and returns the number of its ids, or -1 without memory. `out` has
/// room for `len` ids and 16 more.
export fn ladder_encode(
    encoder: *Encoders,
    text: [*]const u8,
    len: usize,
    out: [*]u32,
    times: usize,
) isize {
    var count: usize = 0;
    switch (encoder.*) {
        inline else => |*one| for (0..times) |_| {
            count = one.encode(text[0..len], out[0 .. len + 16]) catch return -1;
        },
    }
    return @intCast(count);
}
