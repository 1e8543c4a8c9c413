//! An error of counting or of a file of counts → its text.

const counts = @import("../count.zig");
const Failure = @import("../failure.zig").Failure;

/// Returns the reason for counts or a file that cannot be used.
pub fn failureOf(failure: counts.Error, report: *const counts.Report) Failure {
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
