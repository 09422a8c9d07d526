#include "server/identity/key_index.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>

#include "absl/status/status.h"

namespace upscaled::server {
namespace {

uint64_t HeadOf(const KeyHash& hash) {
  uint64_t head = 0;
  std::memcpy(&head, hash.data(), sizeof head);
  return head;
}

}  // namespace

absl::StatusOr<std::unique_ptr<const KeyIndex>> KeyIndex::Make(const KeyTable& keys) {
  std::unique_ptr<KeyIndex> index(new KeyIndex);
  if (RAND_bytes(index->secret_.data(), static_cast<int>(index->secret_.size())) != 1) {
    return absl::UnavailableError("the system has no random numbers");
  }
  index->records_.reserve(keys.size());
  for (const auto& [hash, entry] : keys) {
    index->records_.push_back({index->Disguised(hash), absl::ToUnixNanos(entry.not_before),
                               absl::ToUnixNanos(entry.expires), &entry});
  }
  const auto head = [](const Record& record) { return HeadOf(record.disguised); };
  std::ranges::sort(index->records_, {}, head);
  index->heads_.resize(keys.size());
  std::ranges::transform(index->records_, index->heads_.begin(), head);
  // Once in 10^11 starts of 10,000 keys two have the same head, and stand for one.
  if (std::ranges::adjacent_find(index->heads_) != index->heads_.end()) return Make(keys);
  return index;
}

KeyIndex::Place KeyIndex::Find(const KeyHash& hash, absl::Time now) const {
  if (records_.empty()) return {};
  const KeyHash disguised = Disguised(hash);
  const uint64_t head = HeadOf(disguised);
  // To the first not before it, or the last one, in as many steps as there are bits in the count of
  // keys; it does not end early at its own.
  size_t first = 0;
  for (size_t count = heads_.size(); count > 1;) {
    const size_t half = count / 2;
    first += half * static_cast<size_t>(heads_[first + half - 1] < head);
    count -= half;
  }
  const Record& record = records_[first];
  const int64_t now_ns = absl::ToUnixNanos(now);
  return {record.entry,
          CRYPTO_memcmp(record.disguised.data(), disguised.data(), disguised.size()) == 0,
          now_ns >= record.expires_ns, now_ns < record.not_before_ns};
}

KeyHash KeyIndex::Disguised(const KeyHash& hash) const {
  std::array<char, 2 * sizeof(KeyHash)> text;
  std::ranges::copy(hash, std::ranges::copy(secret_, text.begin()).out);
  return HashOf({text.data(), text.size()});
}

}  // namespace upscaled::server
