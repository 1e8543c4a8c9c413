//! Sorted entries → a complete file of counts.
//!
//! docs/formats.md has the layout. Entries are written in blocks of about `block_bytes`, each with
//! a checksum, to a temporary file, which is flushed to the disk and renamed at the end. The bytes
//! depend only on the entries.

const std = @import("std");
const Allocator = std.mem.Allocator;
const platform = @import("../platform.zig");
const counts = @import("../count.zig");

pub const magic = "TMC1";
pub const Crc = std.hash.crc.Crc32;

/// A block ends with the entry that reaches this size.
pub const block_bytes = 1 << 18;
/// Length of the payload and number of entries, before each block.
pub const block_head_len = 8;
/// A head with zeros instead of a block, three numbers, and a checksum.
pub const footer_len = block_head_len + 3 * 8 + 4;
pub const metadata_len_max = 1 << 24;
const varint_len_max = 10;
/// The number of temporary names that are tried.
const names_max = 1000;

pub const Writer = struct {
    gpa: Allocator,
    file: platform.files.File,
    path: []const u8,
    /// The name until the file is complete.
    temporary: []u8,
    report: *counts.Report,
    offset: u64 = 0,
    /// The head of a block and its payload so far.
    block: std.ArrayList(u8) = .empty,
    block_entries: u32 = 0,
    /// The last entry.
    last: std.ArrayList(u8) = .empty,
    entries: u64 = 0,
    total: u64 = 0,
    bytes_total: u64 = 0,

    /// `path` must outlive the writer.
    pub fn create(
        gpa: Allocator,
        path: []const u8,
        metadata: []const u8,
        report: *counts.Report,
    ) counts.Error!Writer {
        report.setPath(path);
        if (metadata.len > metadata_len_max) return report.invalid("metadata is too long", 0);
        var self: Writer = undefined;
        for (0..names_max) |number| {
            const temporary = try temporaryName(gpa, path, number);
            const file = platform.files.File.create(temporary) catch |failure| {
                gpa.free(temporary);
                if (failure == error.PathAlreadyExists and number + 1 < names_max) continue;
                return report.failed(failure);
            };
            self = .{
                .gpa = gpa,
                .file = file,
                .path = path,
                .temporary = temporary,
                .report = report,
            };
            break;
        }
        errdefer self.abandon();
        try self.writeHead(metadata);
        try self.beginBlock();
        return self;
    }

    fn temporaryName(gpa: Allocator, path: []const u8, number: usize) Allocator.Error![]u8 {
        const base_len = std.fs.path.basename(path).len;
        const folder = path[0 .. path.len - base_len];
        const base = path[path.len - base_len ..];
        return std.fmt.allocPrint(gpa, "{s}.{s}.{d}.tmp", .{ folder, base, number });
    }

    /// Deletes the file.
    pub fn abandon(self: *Writer) void {
        self.file.close();
        self.discard();
        self.deinit();
    }

    fn discard(self: *Writer) void {
        platform.files.delete(self.temporary);
    }

    fn deinit(self: *Writer) void {
        self.gpa.free(self.temporary);
        self.block.deinit(self.gpa);
        self.last.deinit(self.gpa);
    }

    fn writeHead(self: *Writer, metadata: []const u8) counts.Error!void {
        try self.block.appendSlice(self.gpa, magic);
        try self.appendInt(u32, @intCast(metadata.len));
        try self.block.appendSlice(self.gpa, metadata);
        try self.appendInt(u32, Crc.hash(self.block.items));
        try self.write(self.block.items);
    }

    fn appendInt(self: *Writer, comptime Int: type, number: Int) Allocator.Error!void {
        var bytes: [@sizeOf(Int)]u8 = undefined;
        std.mem.writeInt(Int, &bytes, number, .little);
        try self.block.appendSlice(self.gpa, &bytes);
    }

    /// `varint_len_max` bytes must be reserved.
    fn appendVarint(self: *Writer, number: u64) void {
        var rest = number;
        while (rest >= 0x80) : (rest >>= 7) {
            self.block.appendAssumeCapacity(@as(u8, @truncate(rest)) | 0x80);
        }
        self.block.appendAssumeCapacity(@intCast(rest));
    }

    fn write(self: *Writer, bytes: []const u8) counts.Error!void {
        self.file.writeAll(bytes, self.offset) catch |failure|
            return self.report.failed(failure);
        self.offset += bytes.len;
    }

    fn beginBlock(self: *Writer) Allocator.Error!void {
        self.block.clearRetainingCapacity();
        self.block_entries = 0;
        try self.block.appendNTimes(self.gpa, 0, block_head_len);
    }

    fn endBlock(self: *Writer) counts.Error!void {
        if (self.block_entries == 0) return;
        const payload_len = self.block.items.len - block_head_len;
        std.mem.writeInt(u32, self.block.items[0..4], @intCast(payload_len), .little);
        std.mem.writeInt(u32, self.block.items[4..8], self.block_entries, .little);
        try self.appendInt(u32, Crc.hash(self.block.items));
        try self.write(self.block.items);
        try self.beginBlock();
    }

    /// Adds an entry, which must be greater than the last one. Entries with count 0 are left out.
    pub fn add(self: *Writer, entry: counts.Entry) counts.Error!void {
        if (entry.count == 0) return;
        if (entry.bytes.len > counts.bytes_max) return error.PretokenTooLong;
        const is_first = self.block_entries == 0;
        const shared = if (is_first) 0 else sharedLen(self.last.items, entry.bytes);
        const suffix = entry.bytes[shared..];
        try self.block.ensureUnusedCapacity(self.gpa, 3 * varint_len_max + suffix.len);
        for ([_]u64{ shared, suffix.len, entry.count }) |number| self.appendVarint(number);
        self.block.appendSliceAssumeCapacity(suffix);
        self.last.shrinkRetainingCapacity(shared);
        try self.last.appendSlice(self.gpa, suffix);
        self.block_entries += 1;
        self.entries += 1;
        self.bytes_total += entry.bytes.len;
        self.total = std.math.add(u64, self.total, entry.count) catch return error.CountTooLarge;
        if (self.block.items.len >= block_bytes) try self.endBlock();
    }

    /// Ends the file and renames it. The writer is freed, also if that fails.
    pub fn finish(self: *Writer) counts.Error!void {
        {
            errdefer self.abandon();
            try self.endBlock();
            inline for (.{ self.entries, self.total, self.bytes_total }) |number| {
                try self.appendInt(u64, number);
            }
            try self.appendInt(u32, Crc.hash(self.block.items));
            try self.write(self.block.items);
            self.file.sync() catch |failure| return self.report.failed(failure);
        }
        defer self.deinit();
        // Some systems cannot rename an open file.
        self.file.close();
        platform.files.rename(self.temporary, self.path) catch |failure| {
            self.discard();
            return self.report.failed(failure);
        };
    }
};

fn sharedLen(a: []const u8, b: []const u8) usize {
    const len = @min(a.len, b.len);
    for (a[0..len], b[0..len], 0..) |left, right, index| if (left != right) return index;
    return len;
}
