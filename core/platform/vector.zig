//! Vectors of bytes → bits and other vectors.

const std = @import("std");
const builtin = @import("builtin");

pub const len = 64;
pub const Bytes = @Vector(len, u8);

/// Loads the 64 bytes at `text`. If an array were loaded, the compiler would assemble overlapping
/// loads byte by byte.
pub inline fn load(text: [*]const u8) Bytes {
    return @as(*align(1) const Bytes, @ptrCast(text)).*;
}

pub inline fn splat(byte: u8) Bytes {
    return @splat(byte);
}

/// Returns the results of a comparison as bits, the first in the lowest bit. Only this function
/// converts more than 16 lanes.
pub inline fn bits(flags: anytype) Bits(@TypeOf(flags)) {
    return if (builtin.cpu.arch.isWasm()) bitsByParts(flags) else @bitCast(flags);
}

/// For WebAssembly, where Zig 0.16 compiles the conversion of more than 16 lanes wrongly.
fn bitsByParts(flags: anytype) Bits(@TypeOf(flags)) {
    const lanes = @typeInfo(@TypeOf(flags)).vector.len;
    if (lanes <= 16) return @bitCast(flags);
    var found: Bits(@TypeOf(flags)) = 0;
    inline for (0..lanes / 16) |part| {
        const some: u16 = @bitCast(std.simd.extract(flags, part * 16, 16));
        found |= @as(@TypeOf(found), some) << part * 16;
    }
    return found;
}

fn Bits(comptime Flags: type) type {
    return @Int(.unsigned, @typeInfo(Flags).vector.len);
}

/// Keeps the compiler from collecting eight counts in a vector, which would be slower.
pub inline fn scalar(number: u32) u32 {
    return asm (""
        : [out] "=r" (-> u32),
        : [in] "0" (number),
    );
}

/// Returns a mask of the lowest `count` bits, at most 64.
pub inline fn low(count: u7) u64 {
    return if (count >= 64) ~@as(u64, 0) else (@as(u64, 1) << @intCast(count)) - 1;
}

/// Returns all bits of `run` that are reachable upwards from `seeds` within `run`. Seeds must be in
/// `run`.
pub inline fn flood(seeds: u64, run: u64) u64 {
    return run & ((run ^ (run +% seeds)) | seeds);
}

pub const Table = [16]u8;

/// Looks up each index, which must be below 16, in the table.
pub inline fn lookup(table: Table, indices: Bytes) Bytes {
    const parts: [len / part_len]Part = @bitCast(indices);
    var entries: [len / part_len]Part = undefined;
    const repeated: [part_len / 16]Table = @splat(table);
    inline for (parts, &entries) |part, *entry| entry.* = shuffle(@bitCast(repeated), part);
    return @bitCast(entries);
}

/// The size of a vector register, limited to instructions that Debug mode's assembler supports.
const Part = @Vector(part_len, u8);
const part_len: usize = if (builtin.cpu.arch != .x86_64 or !builtin.cpu.has(.x86, .avx2))
    16
else if (builtin.cpu.has(.x86, .avx512bw) and builtin.zig_backend == .stage2_llvm) 64 else 32;

/// Zig has no shuffle with indices known only at run time, but CPUs have. On x86-64 each group of
/// 16 bytes uses its own copy of the table.
inline fn shuffle(table: Part, indices: Part) Part {
    return switch (builtin.cpu.arch) {
        .x86_64 => if (part_len == 16)
            asm ("pshufb %[indices], %[out]"
                : [out] "=x" (-> Part),
                : [table] "0" (table),
                  [indices] "x" (indices),
            )
        else
            asm ("vpshufb %[indices], %[table], %[out]"
                : [out] "=x" (-> Part),
                : [table] "x" (table),
                  [indices] "x" (indices),
            ),
        .aarch64 => asm ("tbl %[out].16b, {%[table].16b}, %[indices].16b"
            : [out] "=w" (-> Part),
            : [table] "w" (table),
              [indices] "w" (indices),
        ),
        else => shuffleSlowly(table, indices),
    };
}

/// The reference implementation, also used on CPUs without measurements.
fn shuffleSlowly(table: Part, indices: Part) Part {
    const entries: [part_len]u8 = table;
    var out: [part_len]u8 = indices;
    for (&out) |*byte| byte.* = entries[byte.*];
    return out;
}

test "vector: bits by parts equal bits at once" {
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    inline for (.{ 8, 16, 32, 64 }) |lanes| {
        for (0..100) |_| {
            var some: [lanes]u8 = undefined;
            random.fill(&some);
            const flags = @as(@Vector(lanes, u8), some) < @as(@Vector(lanes, u8), @splat(100));
            const expected: @Int(.unsigned, lanes) = @bitCast(flags);
            try std.testing.expectEqual(expected, bitsByParts(flags));
        }
    }
}

test "vector: lookup returns the indexed entries" {
    var random: std.Random.DefaultPrng = .init(std.testing.random_seed);
    var table: Table = undefined;
    random.fill(&table);
    var indices: [len]u8 = undefined;
    random.fill(&indices);
    const found: [len]u8 = lookup(table, @as(Bytes, indices) & splat(15));
    for (indices, found) |index, entry| try std.testing.expectEqual(table[index & 15], entry);
}
