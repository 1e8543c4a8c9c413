//! An error of counting or of a file of counts → its text.

const counts = @import("../count.zig");
const Failure = @import("../failure.zig").Failure;

/// The error of a file.
pub const Report = struct {
    path_bytes: [400]u8 = undefined,
    path_len: usize = 0,
    what: []const u8 = "",
    offset: u64 = 0,
    system: ?anyerror = null,

    pub fn setPath(self: *Report, new: []const u8) void {
        self.path_len = @min(new.len, self.path_bytes.len);
        @memcpy(self.path_bytes[0..self.path_len], new[0..self.path_len]);
    }
    pub fn path(self: *const Report) []const u8 {
        return self.path_bytes[0..self.path_len];
    }
    pub fn invalid(self: *Report, what: []const u8, offset: u64) counts.Error {
        self.what = what;
        self.offset = offset;
        return error.InvalidFile;
    }
    pub fn failed(self: *Report, failure: anyerror) counts.Error {
        self.system = failure;
        return error.FileFailed;
    }
};

/// Returns the reason for counts or a file that cannot be used.
pub fn failureOf(failure: counts.Error, report: *const Report) Failure {
    return switch (failure) {
        error.OutOfMemory => .out_of_memory,
        error.Interrupted => .interrupted,
        error.PretokenTooLong => .init(
            .input,
            "a pretoken has 2 GB or more; use a pattern that cuts this text",
            .{},
        ),
        error.CountTooLarge => .init(
            .input,
            "the counts add up to 2^64 or more; use smaller weights",
            .{},
        ),
        error.CountsUnknown => .init(
            .input,
            "an addition to this counter did not end, so its counts are not known; " ++
                "count again with a new one",
            .{},
        ),
        error.InvalidFile => .init(
            .input,
            "{s}: {s}, at byte {d}; count again, or copy the file again",
            .{ report.path(), report.what, report.offset },
        ),
        error.FileFailed => .init(
            .system,
            "{s}: {s}",
            .{ report.path(), textOf(report.system.?) },
        ),
    };
}

fn textOf(failure: anyerror) []const u8 {
    return switch (failure) {
        error.FileNotFound => "no such file or folder",
        error.NoSpaceLeft => "no space left on the disk",
        error.DiskQuota => "the disk quota is used up",
        error.FileTooBig => "the file is too large for this disk",
        error.AccessDenied, error.PermissionDenied => "permission denied",
        error.IsDir => "it is a folder",
        error.NotDir => "a part of the path is not a folder",
        error.ReadOnlyFileSystem => "the disk is read-only",
        error.ProcessFdQuotaExceeded => "too many open files",
        else => |other| @errorName(other),
    };
}
