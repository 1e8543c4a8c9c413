//! 64 bytes → positions at which a token text may begin, a superset of all matches.

const vector = @import("../platform.zig").vector;
const Names = @import("../added.zig").Names;

pub const Filter = struct {
    /// By low and high nibble: the buckets of token texts with such a first, or second, byte.
    first: [2]vector.Table = @splat(@splat(0)),
    second: [2]vector.Table = @splat(@splat(0)),

    pub fn fill(self: *Filter, names: *const Names) void {
        var bytes_seen: usize = 0;
        for (0..256) |first| {
            if (!names.isFirst(@intCast(first))) continue;
            const bucket = @as(u8, 1) << @intCast(bytes_seen % 8);
            bytes_seen += 1;
            enter(&self.first, @intCast(first), bucket);
            for (names.firsts[first]..names.firsts[first + 1]) |index| {
                const name = names.name(index);
                if (name.len > 1) enter(&self.second, name[1], bucket) else {
                    for (&self.second) |*table| for (table) |*entry| {
                        entry.* |= bucket;
                    };
                }
            }
        }
    }

    fn enter(tables: *[2]vector.Table, byte: u8, bucket: u8) void {
        tables[0][byte & 15] |= bucket;
        tables[1][byte >> 4] |= bucket;
    }

    /// Returns a bit for each of the first 64 bytes of `text` that may begin a match.
    pub inline fn hits(self: *const Filter, text: []const u8) u64 {
        if (text.len > vector.len) return self.hitsAt(text.ptr);
        // The byte after the text may have any value.
        var padded: [vector.len + 1]u8 = @splat(0);
        @memcpy(padded[0..text.len], text);
        return self.hitsAt(&padded) & vector.low(@intCast(text.len));
    }

    inline fn hitsAt(self: *const Filter, text: [*]const u8) u64 {
        const first = find(&self.first, vector.load(text));
        return vector.bits(first & find(&self.second, vector.load(text + 1)) != vector.splat(0));
    }

    inline fn find(tables: *const [2]vector.Table, bytes: vector.Bytes) vector.Bytes {
        return vector.lookup(tables[0], bytes & vector.splat(15)) &
            vector.lookup(tables[1], bytes >> @splat(4));
    }
};
