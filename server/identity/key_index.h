// Finds a key's entry in a time independent of the stored keys.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "server/identity/api_key.h"
#include "server/identity/key_file.h"

namespace upscaled::server {

// Thread safe. Keys stand in the order of their hashes' SHA-256 with a random secret before it, so
// the comparisons of a search lead to no stored hash. Every search takes the same steps to a record
// of one cache line, reads all of it, and nothing else of any key.
class KeyIndex {
 public:
  struct Place {
    const KeyEntry* entry;  // null: there are no keys
    bool is_its;            // otherwise it is another key's, beside which this one would stand
    bool expired, early;    // of that entry
  };

  // `keys` must outlive it and stay where they are. UNAVAILABLE: the system has no random
  // numbers.
  static absl::StatusOr<std::unique_ptr<const KeyIndex>> Make(const KeyTable& keys);

  Place Find(const KeyHash& hash, absl::Time now) const;

 private:
  struct alignas(64) Record {
    KeyHash disguised;
    int64_t not_before_ns, expires_ns;  // of the Unix epoch
    const KeyEntry* entry;
  };

  KeyIndex() = default;
  KeyHash Disguised(const KeyHash& hash) const;

  KeyHash secret_;
  std::vector<uint64_t> heads_;  // the first bytes of the disguised hashes, in order
  std::vector<Record> records_;  // in the same order
};

}  // namespace upscaled::server
