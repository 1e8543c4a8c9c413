//! Paths → files: blocking calls, and errors of the operating system.

const std = @import("std");
const Io = std.Io;

/// Has blocking calls only, and installs no signal handlers.
fn blocking() Io {
    return Io.Threaded.global_single_threaded.io();
}

pub const File = struct {
    file: Io.File,

    /// Creates a file. `error.PathAlreadyExists` if the path exists.
    pub fn create(path: []const u8) Io.File.OpenError!File {
        const options: Io.Dir.CreateFileOptions = .{ .exclusive = true };
        return .{ .file = try Io.Dir.cwd().createFile(blocking(), path, options) };
    }

    pub fn open(path: []const u8) Io.File.OpenError!File {
        return .{ .file = try Io.Dir.cwd().openFile(blocking(), path, .{}) };
    }

    pub fn close(self: File) void {
        self.file.close(blocking());
    }

    pub fn length(self: File) Io.File.LengthError!u64 {
        return self.file.length(blocking());
    }

    /// Returns the number of bytes, which is less than `into.len` only at the end of the file.
    pub fn readAll(self: File, into: []u8, offset: u64) Io.File.ReadPositionalError!usize {
        return self.file.readPositionalAll(blocking(), into, offset);
    }

    pub fn writeAll(
        self: File,
        bytes: []const u8,
        offset: u64,
    ) Io.File.WritePositionalError!void {
        return self.file.writePositionalAll(blocking(), bytes, offset);
    }

    /// Flushes the file to the disk.
    pub fn sync(self: File) Io.File.SyncError!void {
        return self.file.sync(blocking());
    }
};

/// Gives a closed file another name, in place of an existing file.
pub fn rename(old: []const u8, new: []const u8) Io.Dir.RenameError!void {
    const cwd = Io.Dir.cwd();
    return cwd.rename(old, cwd, new, blocking());
}

/// Deletes a file if that is possible.
pub fn delete(path: []const u8) void {
    Io.Dir.cwd().deleteFile(blocking(), path) catch {};
}
