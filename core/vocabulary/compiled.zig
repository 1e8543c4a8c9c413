//! Vocabulary ↔ bytes: all that takes time to find out about a file, to be kept beside it.
//!
//! Layout, all little-endian: the header, then offsets (`ids_end` + 1), merges (left, right and
//! what they become), public ids where they are not the ranks, classes where there are ties, a
//! byte for each rank that says whether it is hidden, and the bytes of the tokens.
//!
//! What is read may be damaged or made up: every number is checked before it is used.

const std = @import("std");
const builtin = @import("builtin");
const Allocator = std.mem.Allocator;
const PairTable = @import("pair_table.zig").PairTable;
const unreached = @import("unreached.zig");

pub const Header = extern struct {
    magic: [4]u8 = "TMC1".*,
    ids_end: u32,
    bytes_len: u32,
    merge_count: u32,
    token_count: u32,
    token_len_max: u32,
    empty_id: u32,
    prefixes_start: u32,
    prefixes_end: u32,
    unk: u32,
    /// One past the largest public id, or none where ids are ranks.
    ranks_len: u32,
    /// Numbers of the enums.
    leftover: u8,
    missing: u8,
    flags: packed struct(u8) {
        is_closed: bool,
        fuse_unk: bool,
        characters: bool,
        has_ties: bool,
        tells_unreached: bool,
        padding: u3 = 0,
    },
    padding: u8 = 0,
};

const Words = []align(1) const u32;

/// What lies in a file, as it lies there.
pub const View = struct {
    header: Header,
    offsets: Words,
    merges: Words,
    public: ?Words,
    classes: ?Words,
    hidden: []const u8,
    bytes: []const u8,

    pub fn init(data: []const u8) error{InvalidImage}!View {
        // The other order of bytes is nothing that a cache has to carry from machine to machine.
        if (builtin.cpu.arch.endian() != .little) return error.InvalidImage;
        if (data.len < @sizeOf(Header)) return error.InvalidImage;
        const header: Header = @bitCast(data[0..@sizeOf(Header)].*);
        if (!std.mem.eql(u8, &header.magic, "TMC1")) return error.InvalidImage;
        if (header.ids_end >= PairTable.id_limit - 257) return error.InvalidImage;
        var rest = data[@sizeOf(Header)..];
        const is_mapped = header.ranks_len != PairTable.none;
        const self: View = .{
            .header = header,
            .offsets = try take(&rest, @as(usize, header.ids_end) + 1),
            .merges = try take(&rest, 3 * @as(usize, header.merge_count)),
            .public = if (is_mapped) try take(&rest, header.ids_end) else null,
            .classes = if (header.flags.has_ties) try take(&rest, header.ids_end) else null,
            .hidden = try takeBytes(&rest, header.ids_end),
            .bytes = try takeBytes(&rest, header.bytes_len),
        };
        if (rest.len > 0) return error.InvalidImage;
        try self.check();
        return self;
    }

    fn check(self: *const View) error{InvalidImage}!void {
        const header = &self.header;
        const ids_end = header.ids_end;
        if (self.offsets[0] != 0 or self.offsets[ids_end] != header.bytes_len) {
            return error.InvalidImage;
        }
        for (self.offsets[0..ids_end], self.offsets[1..]) |start, end| {
            if (start > end) return error.InvalidImage;
        }
        var index: usize = 0;
        while (index < self.merges.len) : (index += 3) {
            const left, const right = .{ self.merges[index], self.merges[index + 1] };
            if (@max(left, right) >= ids_end + 256) return error.InvalidImage;
            if (self.merges[index + 2] >= ids_end) return error.InvalidImage;
        }
        if (header.ranks_len != PairTable.none and header.ranks_len > PairTable.id_limit) {
            return error.InvalidImage;
        }
        if (self.public) |public| for (public) |id| {
            if (id != PairTable.none and id >= header.ranks_len) return error.InvalidImage;
        };
        if (self.classes) |classes| for (classes, 0..) |class, rank| {
            if (class > rank) return error.InvalidImage;
        };
        if (header.prefixes_start > header.prefixes_end or header.prefixes_end > ids_end) {
            return error.InvalidImage;
        }
        for ([_]u32{ header.unk, header.empty_id }) |rank| {
            if (rank != PairTable.none and rank >= ids_end) return error.InvalidImage;
        }
    }
};

fn take(rest: *[]const u8, count: usize) error{InvalidImage}!Words {
    return std.mem.bytesAsSlice(u32, try takeBytes(rest, count * 4));
}

fn takeBytes(rest: *[]const u8, count: usize) error{InvalidImage}![]const u8 {
    if (count > rest.len) return error.InvalidImage;
    defer rest.* = rest.*[count..];
    return rest.*[0..count];
}

/// The bytes of a vocabulary, which the caller frees. It has no dropout.
pub fn write(gpa: Allocator, vocabulary: anytype) Allocator.Error![]u8 {
    const ids_end = vocabulary.ids_end;
    const merges = try vocabulary.pairs.all(gpa);
    defer gpa.free(merges);
    const classes: ?[]const u32 = if (vocabulary.ties) |ties| ties.classes else null;
    const header: Header = .{
        .ids_end = ids_end,
        .bytes_len = @intCast(vocabulary.bytes.len),
        .merge_count = @intCast(merges.len),
        .token_count = vocabulary.token_count,
        .token_len_max = vocabulary.token_len_max,
        .empty_id = vocabulary.empty_id orelse PairTable.none,
        .prefixes_start = vocabulary.prefixes_start,
        .prefixes_end = vocabulary.prefixes_end,
        .unk = vocabulary.unk,
        .ranks_len = if (vocabulary.ranks) |ranks| @intCast(ranks.len) else PairTable.none,
        .leftover = @intFromEnum(vocabulary.leftover),
        .missing = @intFromEnum(vocabulary.missing),
        .flags = .{
            .is_closed = vocabulary.is_closed,
            .fuse_unk = vocabulary.fuse_unk,
            .characters = vocabulary.characters,
            .has_ties = classes != null,
            .tells_unreached = unreached.tells(vocabulary),
        },
    };
    var out: std.ArrayList(u8) = .empty;
    errdefer out.deinit(gpa);
    try out.appendSlice(gpa, std.mem.asBytes(&header));
    try out.appendSlice(gpa, std.mem.sliceAsBytes(vocabulary.offsets));
    for (merges) |merge| {
        const words = [3]u32{ merge.left, merge.right, merge.id };
        try out.appendSlice(gpa, std.mem.asBytes(&words));
    }
    if (vocabulary.public) |public| try out.appendSlice(gpa, std.mem.sliceAsBytes(public));
    if (classes) |some| try out.appendSlice(gpa, std.mem.sliceAsBytes(some));
    for (0..ids_end) |id| {
        const token = vocabulary.tokenBytes(@intCast(id));
        const is_found = token.len == 0 or vocabulary.find(token) == @as(u32, @intCast(id));
        try out.append(gpa, @intFromBool(!is_found));
    }
    try out.appendSlice(gpa, vocabulary.bytes);
    return out.toOwnedSlice(gpa);
}

/// The vocabulary that was written.
pub fn read(
    comptime Vocabulary: type,
    gpa: Allocator,
    data: []const u8,
    seed: u64,
) error{ OutOfMemory, InvalidImage }!Vocabulary {
    const view: View = try .init(data);
    const header = &view.header;
    var self = Vocabulary.allocate(gpa, header.ids_end, header.bytes_len) catch
        return error.OutOfMemory;
    errdefer self.deinit(gpa);
    @memcpy(self.bytes, view.bytes);
    @memcpy(self.offsets, view.offsets);
    const hidden = try gpa.alloc(bool, header.ids_end);
    defer gpa.free(hidden);
    for (hidden, view.hidden) |*is_hidden, byte| is_hidden.* = byte != 0;
    var culprit: u32 = 0;
    self.indexTokens(gpa, seed, hidden, &culprit) catch |failure| switch (failure) {
        error.OutOfMemory => return error.OutOfMemory,
        else => return error.InvalidImage,
    };
    const merges = try gpa.alloc(PairTable.Merge, header.merge_count);
    defer gpa.free(merges);
    for (merges, 0..) |*merge, index| {
        const words = view.merges[3 * index ..][0..3];
        merge.* = .{ .left = words[0], .right = words[1], .id = words[2] };
    }
    // A merge that spells something else would send encoding astray.
    for (merges) |merge| {
        const left, const right = .{ self.partBytes(merge.left), self.partBytes(merge.right) };
        const whole = self.tokenBytes(merge.id);
        if (left.len == 0 or right.len == 0 or left.len + right.len != whole.len or
            !std.mem.startsWith(u8, whole, left) or !std.mem.endsWith(u8, whole, right))
        {
            return error.InvalidImage;
        }
    }
    self.enterMerges(gpa, merges, seed) catch return error.OutOfMemory;
    self.empty_id = if (header.empty_id == PairTable.none) null else header.empty_id;
    self.is_closed = header.flags.is_closed;
    if (header.flags.tells_unreached) self.unreached = try .of(gpa, &self);
    self.token_count = header.token_count;
    self.token_len_max = @max(header.token_len_max, self.token_len_max);
    self.prefixes_start = header.prefixes_start;
    self.prefixes_end = header.prefixes_end;
    self.characters = header.flags.characters;
    self.fuse_unk = header.flags.fuse_unk;
    self.unk = header.unk;
    self.leftover = try enumOf(@TypeOf(self.leftover), header.leftover);
    self.missing = try enumOf(@TypeOf(self.missing), header.missing);
    if (self.missing == .unk and self.unk == PairTable.none) return error.InvalidImage;
    if (view.classes) |classes| {
        self.ties = try .init(gpa, try copyOf(gpa, classes), self, merges);
    }
    if (view.public) |public| {
        self.public = try copyOf(gpa, public);
        self.ranks = try gpa.alloc(u32, header.ranks_len);
        @memset(self.ranks.?, PairTable.none);
        for (self.public.?, 0..) |id, rank| if (id != PairTable.none) {
            self.ranks.?[id] = @intCast(rank);
        };
    }
    return self;
}

fn enumOf(comptime Enum: type, number: u8) error{InvalidImage}!Enum {
    return std.enums.fromInt(Enum, number) orelse error.InvalidImage;
}

fn copyOf(gpa: Allocator, words: Words) Allocator.Error![]u32 {
    const copy = try gpa.alloc(u32, words.len);
    @memcpy(copy, words);
    return copy;
}
