//! The core of tokenmill: bytes and ids, independent of Python.
//!
//!     training:  documents ▶ pretokens ▶ counts ▶ merges
//!     encoding:  bytes ▶ pretokens ▶ (with the vocabulary) ids

pub const platform = @import("platform.zig");
pub const unicode = @import("unicode.zig");
pub const pretokens = @import("pretokens.zig");
pub const normal = @import("normal.zig");
pub const vocabulary = @import("vocabulary.zig");
pub const files = @import("files.zig");
pub const added = @import("added.zig");
pub const documents = @import("documents.zig");
pub const counts = @import("counts.zig");
pub const merges = @import("merges.zig");
pub const ids = @import("ids.zig");

test {
    _ = platform;
    _ = unicode;
    _ = pretokens;
    _ = normal;
    _ = vocabulary;
    _ = files;
    _ = added;
    _ = documents;
    _ = counts;
    _ = merges;
    _ = ids;
}
