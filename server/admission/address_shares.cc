#include "server/admission/address_shares.h"

namespace upscaled::server {

int64_t AddressShares::taken(const std::string& address) const {
  const auto entry = taken_.find(address);
  return entry == taken_.end() ? 0 : entry->second;
}

void AddressShares::Take(const std::string& address, int64_t amount) {
  if (!address.empty() && amount != 0) taken_[address] += amount;
}

void AddressShares::Give(const std::string& address, int64_t amount) {
  const auto entry = taken_.find(address);
  if (entry == taken_.end()) return;
  entry->second -= amount;
  if (entry->second == 0) taken_.erase(entry);
}

}  // namespace upscaled::server
