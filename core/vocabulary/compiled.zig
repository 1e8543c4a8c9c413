//! Vocabulary ↔ bytes: all that takes time to find out about a file, to be kept beside it.
//!
//! Layout, all little-endian: the header, then offsets (`ids_end` + 1), merges (left, right and
//! what they become), public ids where they are not the ranks, classes where there are ties, a
//! byte for each rank that says whether it is hidden, and the bytes of the tokens.
//!
//! What is read may be damaged or made up: every number is checked before it is used, and what the
//! others tell is found out again. Only one thing is believed, since looking takes longer than all
//! else: that the pairs are those that merging meets. Others give other ids, and no more harm.

const std = @import("std");
const builtin = @import("builtin");
const Allocator = std.mem.Allocator;
const vocabularies = @import("../vocabulary.zig");
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
        if (header.flags.padding != 0 or header.padding != 0) return error.InvalidImage;
        if (header.bytes_len > vocabularies.bytes_len_limit) return error.InvalidImage;
        if (self.offsets[0] != 0 or self.offsets[ids_end] != header.bytes_len) {
            return error.InvalidImage;
        }
        // Without branches, and so many at once. What wraps is either longer or behind the last.
        var len_max: u32 = 0;
        var end_max: u32 = 0;
        for (self.offsets[0..ids_end], self.offsets[1..]) |start, end| {
            len_max = @max(len_max, end -% start);
            end_max = @max(end_max, end);
        }
        if (len_max > vocabularies.token_len_limit or end_max > header.bytes_len) {
            return error.InvalidImage;
        }
        var part_max: u32 = 0;
        var made_max: u32 = 0;
        var index: usize = 0;
        while (index < self.merges.len) : (index += 3) {
            part_max = @max(part_max, self.merges[index], self.merges[index + 1]);
            made_max = @max(made_max, self.merges[index + 2]);
        }
        if (part_max >= ids_end + 256) return error.InvalidImage;
        if (made_max >= ids_end and self.merges.len > 0) return error.InvalidImage;
        if (header.token_count > ids_end) return error.InvalidImage;
        if (header.prefixes_start > header.prefixes_end or header.prefixes_end > ids_end) {
            return error.InvalidImage;
        }
        for ([_]u32{ header.unk, header.empty_id }) |rank| {
            if (rank != PairTable.none and rank >= ids_end) return error.InvalidImage;
        }
        if (ids_end > 0 and std.mem.max(u8, self.hidden) > 1) return error.InvalidImage;
        if (self.public) |public| try self.checkPublic(public);
        // The first of a class is its own.
        if (self.classes) |classes| for (classes, 0..) |class, rank| {
            if (class > rank or classes[class] != class) return error.InvalidImage;
        };
    }

    /// All but parts of characters have an id, and the largest is the last.
    fn checkPublic(self: *const View, public: Words) error{InvalidImage}!void {
        const header = &self.header;
        if (header.ranks_len > PairTable.id_limit) return error.InvalidImage;
        var ids_end: u32 = 0;
        for (public, 0..) |id, rank| {
            const is_prefix = rank >= header.prefixes_start and rank < header.prefixes_end;
            if (is_prefix != (id == PairTable.none)) return error.InvalidImage;
            if (!is_prefix) ids_end = @max(ids_end, id +| 1);
        }
        if (ids_end != header.ranks_len) return error.InvalidImage;
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
    const hidden: []const bool = @ptrCast(view.hidden);
    var culprit: u32 = 0;
    self.indexTokens(gpa, seed, hidden, &culprit) catch |failure| switch (failure) {
        error.OutOfMemory => return error.OutOfMemory,
        else => return error.InvalidImage,
    };
    const found_count = self.token_count;
    try takeHeader(&self, header);
    try checkTokens(&self, hidden, header.token_len_max);
    const merges = try gpa.alloc(PairTable.Merge, header.merge_count);
    defer gpa.free(merges);
    for (merges, 0..) |*merge, index| {
        const words = view.merges[3 * index ..][0..3];
        merge.* = .{ .left = words[0], .right = words[1], .id = words[2] };
    }
    const made_count = try checkMerges(gpa, &self, hidden, merges);
    var single_bytes: usize = 0;
    for (self.byte_ids) |id| single_bytes += @intFromBool(id < self.ids_end);
    // All that are found are bytes or made of others.
    if (self.is_closed and single_bytes + made_count != found_count) return error.InvalidImage;
    self.enterMerges(gpa, merges, seed) catch return error.OutOfMemory;
    if (header.flags.tells_unreached) self.unreached = try .of(gpa, &self, hidden);
    if (view.classes) |classes| {
        self.ties = try .init(gpa, try copyOf(gpa, classes), self, merges);
    }
    if (view.public) |public| {
        self.public = try copyOf(gpa, public);
        self.ranks = try gpa.alloc(u32, header.ranks_len);
        @memset(self.ranks.?, PairTable.none);
        for (self.public.?, 0..) |id, rank| if (id != PairTable.none) {
            if (self.ranks.?[id] != PairTable.none) return error.InvalidImage;
            self.ranks.?[id] = @intCast(rank);
        };
    }
    return self;
}

/// What is said of all tokens.
fn takeHeader(self: anytype, header: *const Header) error{InvalidImage}!void {
    self.empty_id = if (header.empty_id == PairTable.none) null else header.empty_id;
    self.is_closed = header.flags.is_closed;
    if (self.is_closed and !header.flags.tells_unreached) return error.InvalidImage;
    self.token_count = header.token_count;
    self.prefixes_start = header.prefixes_start;
    self.prefixes_end = header.prefixes_end;
    self.characters = header.flags.characters;
    self.fuse_unk = header.flags.fuse_unk;
    self.unk = header.unk;
    self.missing = try enumOf(@TypeOf(self.missing), header.missing);
    self.leftover = try enumOf(@TypeOf(self.leftover), header.leftover);
    if (self.leftover != self.leftoverOf()) return error.InvalidImage;
    // Bytes can only stand for what is missing where all of them are there.
    if (self.missing == .bytes and !self.hasAllBytes()) return error.InvalidImage;
    if ((self.missing == .unk) != (self.unk != PairTable.none)) return error.InvalidImage;
    if (self.unk != PairTable.none and self.isPrefix(self.unk)) return error.InvalidImage;
}

fn checkTokens(self: anytype, hidden: []const bool, len_max: u32) error{InvalidImage}!void {
    if (self.empty_id) |id| if (self.tokenBytes(id).len > 0) return error.InvalidImage;
    if (self.characters) self.token_len_max = @max(self.token_len_max, vocabularies.char_len_max);
    if (self.token_len_max != len_max) return error.InvalidImage;
    const prefixes = hidden[self.prefixes_start..self.prefixes_end];
    if (prefixes.len > 0 and !self.characters) return error.InvalidImage;
    for (prefixes, self.prefixes_start..) |is_hidden, rank| {
        const len = self.partLen(@intCast(rank));
        if (!is_hidden or len < 2 or len > vocabularies.char_len_max) return error.InvalidImage;
    }
}

/// Merges join what merging can come to, and spell what they become: anything else would send
/// encoding astray. Returns how many tokens they make, without parts of characters.
fn checkMerges(
    gpa: Allocator,
    self: anytype,
    hidden: []const bool,
    merges: []const PairTable.Merge,
) error{ OutOfMemory, InvalidImage }!usize {
    var made: std.DynamicBitSetUnmanaged = try .initEmpty(gpa, self.ids_end);
    defer made.deinit(gpa);
    var met = try metBy(gpa, self, hidden);
    defer met.deinit(gpa);
    for (merges) |merge| {
        const left, const right = .{ self.partBytes(merge.left), self.partBytes(merge.right) };
        const whole = self.tokenBytes(merge.id);
        if (left.len == 0 or right.len == 0 or left.len + right.len != whole.len or
            !std.mem.startsWith(u8, whole, left) or !std.mem.endsWith(u8, whole, right))
        {
            return error.InvalidImage;
        }
        const are_met = met.isSet(merge.left) and met.isSet(merge.right) and met.isSet(merge.id);
        if (!are_met) return error.InvalidImage;
        made.set(merge.id);
    }
    for (self.prefixes_start..self.prefixes_end) |rank| made.unset(rank);
    return made.count();
}

/// What merging can come to: tokens that are found, parts of characters, and stand-ins of bytes
/// that are no token. A bit each stays near, while merges name any of them.
fn metBy(
    gpa: Allocator,
    self: anytype,
    hidden: []const bool,
) Allocator.Error!std.DynamicBitSetUnmanaged {
    var met: std.DynamicBitSetUnmanaged = try .initEmpty(gpa, @as(usize, self.ids_end) + 256);
    for (hidden, 0..) |is_hidden, rank| {
        if (!is_hidden) met.set(rank);
    }
    for (self.prefixes_start..self.prefixes_end) |rank| met.set(rank);
    for (self.byte_ids, self.ids_end..) |id, rank| {
        if (id == rank) met.set(rank);
    }
    return met;
}

fn enumOf(comptime Enum: type, number: u8) error{InvalidImage}!Enum {
    return std.enums.fromInt(Enum, number) orelse error.InvalidImage;
}

fn copyOf(gpa: Allocator, words: Words) Allocator.Error![]u32 {
    const copy = try gpa.alloc(u32, words.len);
    @memcpy(copy, words);
    return copy;
}
