// A zip file in memory with its entries stored, not compressed, as torch.save writes it.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

struct zip;

namespace upscaled::pytorch {

// Thread-compatible: one entry is read at a time.
class ZipArchive {
 public:
  // Borrows the bytes. INVALID_ARGUMENT: no zip file, a damaged one, a repeated, compressed or
  // encrypted entry, or overlapping entries. UNIMPLEMENTED: no file of torch.save, but a
  // TorchScript program or another archive. RESOURCE_EXHAUSTED: more than kMaxZipEntries.
  static absl::StatusOr<ZipArchive> Open(std::string_view bytes);

  struct Entry {
    uint64_t index;
    uint64_t bytes;
  };
  const std::map<std::string, Entry, std::less<>>& entries() const { return entries_; }

  // An entry of entries(). INVALID_ARGUMENT: the bytes do not have the right checksum.
  absl::StatusOr<std::string> Read(const Entry& entry) const;

 private:
  struct Close {
    void operator()(zip* archive) const;
  };
  explicit ZipArchive(zip* archive) : archive_(archive) {}
  absl::Status List(uint64_t archive_bytes);

  std::unique_ptr<zip, Close> archive_;
  std::map<std::string, Entry, std::less<>> entries_;
};

}  // namespace upscaled::pytorch
