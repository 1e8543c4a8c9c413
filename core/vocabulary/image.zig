//! Packed vocabulary → tokens and canonical pairs. The package contains its vocabularies in this
//! form.
//!
//! Ids 0–255 are single bytes. Every later token is the pair of earlier ids that merges into it,
//! each with only as many bits as an earlier id needs. All of OpenAI's vocabularies take 1.6 MB and
//! are read at memory speed. Layout (little-endian): "TMV1", u32 ids_end, u32 bytes_len, u32
//! gap_count, gap_count × (u32 start, u32 end), 256 single bytes, the bit stream.

const std = @import("std");
const PairTable = @import("pair_table.zig").PairTable;
const token_len_limit = @import("../vocabulary.zig").token_len_limit;

pub const Reader = struct {
    ids_end: u32,
    bytes_len: u32,
    gaps: []const u8,
    singles: *const [256]u8,
    bits: []const u8,
    bit_index: u64,

    pub fn init(packed_image: []const u8) error{InvalidImage}!Reader {
        @setRuntimeSafety(true);
        const header = 16;
        if (packed_image.len < header or !std.mem.eql(u8, packed_image[0..4], "TMV1")) {
            return error.InvalidImage;
        }
        const ids_end = word(packed_image, 4);
        const bytes_len = word(packed_image, 8);
        const gaps_len = @as(u64, word(packed_image, 12)) * 8;
        if (ids_end < 256 or ids_end >= PairTable.id_limit - 256) return error.InvalidImage;
        // Each token at most doubles the length, but real ones are short: reject a forged header.
        if (bytes_len > @as(u64, ids_end) * 1024) return error.InvalidImage;
        if (header + gaps_len + 256 > packed_image.len) return error.InvalidImage;
        const singles_start: usize = @intCast(header + gaps_len);
        return .{
            .ids_end = ids_end,
            .bytes_len = bytes_len,
            .gaps = packed_image[header..singles_start],
            .singles = packed_image[singles_start..][0..256],
            .bits = packed_image[singles_start + 256 ..],
            .bit_index = 0,
        };
    }

    /// Fills the tokens' bytes, offsets and merges. Returns the number of merges.
    pub fn readInto(
        self: *Reader,
        bytes: []u8,
        offsets: []u32,
        merges: []PairTable.Merge,
    ) error{InvalidImage}!usize {
        @setRuntimeSafety(true);
        var used: u32 = 256;
        if (bytes.len < 256) return error.InvalidImage;
        for (offsets[0..257], 0..) |*offset, id| offset.* = @intCast(id);
        @memcpy(bytes[0..256], self.singles);
        var merge_count: usize = 0;
        var gap: usize = 0;
        for (256..self.ids_end) |id| {
            while (gap < self.gaps.len and id >= word(self.gaps, gap + 4)) gap += 8;
            if (gap == self.gaps.len or id < word(self.gaps, gap)) {
                const left = try self.takeId(@intCast(id));
                const right = try self.takeId(@intCast(id));
                for ([_]u32{ left, right }) |part| {
                    const part_len = offsets[part + 1] - offsets[part];
                    if (part_len == 0 or part_len > bytes.len - used) return error.InvalidImage;
                    @memcpy(bytes[used..][0..part_len], bytes[offsets[part]..][0..part_len]);
                    used += part_len;
                }
                merges[merge_count] = .{ .left = left, .right = right, .id = @intCast(id) };
                merge_count += 1;
            }
            if (used - offsets[id] > token_len_limit) return error.InvalidImage;
            offsets[id + 1] = used;
        }
        if (used != bytes.len) return error.InvalidImage;
        return merge_count;
    }

    /// Returns the next id of the stream, which must be below `end`.
    fn takeId(self: *Reader, end: u32) error{InvalidImage}!u32 {
        @setRuntimeSafety(true);
        const width: u5 = @intCast(32 - @clz(end - 1));
        const start: usize = @intCast(self.bit_index / 8);
        if (self.bit_index + width > @as(u64, self.bits.len) * 8) return error.InvalidImage;
        var window: [4]u8 = @splat(0);
        const available = @min(4, self.bits.len - start);
        @memcpy(window[0..available], self.bits[start..][0..available]);
        const value = std.mem.readInt(u32, &window, .little) >> @intCast(self.bit_index % 8);
        self.bit_index += width;
        const id = value & ((@as(u32, 1) << width) - 1);
        return if (id < end) id else error.InvalidImage;
    }
};

fn word(bytes: []const u8, index: usize) u32 {
    @setRuntimeSafety(true);
    return std.mem.readInt(u32, bytes[index..][0..4], .little);
}

test "image: a token that is longer than any other file may have is rejected" {
    const gpa = std.testing.allocator;
    // Each token after the single bytes is the one before it, twice.
    for ([_]u5{ 15, 16 }) |doublings| {
        const ids_end = @as(u32, 256) + doublings;
        const bytes_len = 256 + (@as(u32, 2) << doublings) - 2;
        var bits: [64]u8 = @splat(0);
        var at: usize = 0;
        for (256..ids_end) |id| {
            const part: u16 = if (id == 256) 'x' else @intCast(id - 1);
            const width: usize = if (id == 256) 8 else 9;
            for (0..2 * width) |bit| {
                const value: u8 = @intCast(part >> @intCast(bit % width) & 1);
                bits[at / 8] |= value << @intCast(at % 8);
                at += 1;
            }
        }
        var head: [16]u8 = @splat(0);
        @memcpy(head[0..4], "TMV1");
        std.mem.writeInt(u32, head[4..8], ids_end, .little);
        std.mem.writeInt(u32, head[8..12], bytes_len, .little);
        const singles: [256]u8 = @splat('x');
        const packed_image = head ++ singles ++ bits;
        var reader = try Reader.init(&packed_image);
        const bytes = try gpa.alloc(u8, bytes_len);
        defer gpa.free(bytes);
        var offsets: [273]u32 = undefined;
        var merges: [16]PairTable.Merge = undefined;
        const outcome = reader.readInto(bytes, &offsets, &merges);
        if (doublings < 16) {
            try std.testing.expectEqual(doublings, try outcome);
        } else try std.testing.expectError(error.InvalidImage, outcome);
    }
}

test "image: a truncated or foreign packed vocabulary is rejected" {
    try std.testing.expectError(error.InvalidImage, Reader.init("TMV"));
    try std.testing.expectError(error.InvalidImage, Reader.init("GGUF, another format"));
    // The header announces 257 tokens, but the data ends after the single bytes.
    var lying: [16 + 256]u8 = @splat(0);
    @memcpy(lying[0..12], "TMV1\x01\x01\x00\x00\x02\x01\x00\x00");
    var reader = try Reader.init(&lying);
    var bytes: [258]u8 = undefined;
    var offsets: [258]u32 = undefined;
    var merges: [257]PairTable.Merge = undefined;
    try std.testing.expectError(error.InvalidImage, reader.readInto(&bytes, &offsets, &merges));
}
