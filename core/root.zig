//! The core of tokenmill: bytes and ids, independent of Python.
//!
//!     training:  documents ▶ pretokens ▶ counts ▶ merges
//!     encoding:  bytes ▶ pretokens ▶ (with the vocabulary) ids

pub const unicode = @import("unicode.zig");
pub const pretokens = @import("pretokens.zig");
pub const pages = @import("platform/memory.zig");
pub const normal = @import("normal.zig");
pub const vocabulary = @import("vocabulary.zig");
pub const files = @import("files.zig");
pub const added = @import("added.zig");
pub const pool = @import("platform/threads.zig");
pub const documents = @import("documents.zig");
pub const counts = @import("counts.zig");
pub const merges = @import("merges.zig");
pub const ids = @import("ids.zig");

test {
    _ = unicode;
    _ = pretokens;
    _ = pages;
    _ = normal;
    _ = vocabulary;
    _ = files;
    _ = added;
    _ = pool;
    _ = documents;
    _ = counts;
    _ = merges;
    _ = ids;
}
